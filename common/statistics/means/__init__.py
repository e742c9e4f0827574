"""What randomized answers show about a mean: intervals and tests that may look at any time, and what liars can move."""
