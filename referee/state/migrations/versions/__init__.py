"""The versions of the referee's database, oldest first."""
