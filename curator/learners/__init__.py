"""Learners: each declares its privacy event first, then learns a hypothesis from draws of the reweighed sample."""
