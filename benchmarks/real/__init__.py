"""What the ways to an answer are worth on real people who differ from the volunteers."""
