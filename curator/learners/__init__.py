"""Learners: each turns draws from the reweighed sample into a hypothesis, its privacy event declared first."""
