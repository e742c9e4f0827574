"""Votes of teachers on public points, and how a winner is said privately: subsample and aggregate."""
