"""The versions of the contributions, oldest first."""
