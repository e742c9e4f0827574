"""Votes of teachers on public points, and how a winner is released privately: subsample and aggregate."""
