"""Lifetime budgets: the privacy cost of all runs for each person, on either side, and the recognition of people."""
