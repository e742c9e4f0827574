"""Learners: the public settings of each, and what a call of it costs. One file each, registered."""
