"""Learners: the public settings of each, and the privacy cost of a call. One file each, registered."""
