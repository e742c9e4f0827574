"""A private choice: the best of a secret random number of private runs, and what that costs."""
