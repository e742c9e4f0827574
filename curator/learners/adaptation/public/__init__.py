"""What adaptation works out on the public side alone, where nothing is spent."""
