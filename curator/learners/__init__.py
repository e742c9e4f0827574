"""Learners: each turns draws from the reweighed sample into a hypothesis and declares its event first."""
