"""What randomized answers show about a mean: intervals, tests that look at any time; what lies and silence can move."""
