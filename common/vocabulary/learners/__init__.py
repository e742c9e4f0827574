"""Learners as everybody sees them: their public settings, and what a call of each costs. One file each, registered."""
