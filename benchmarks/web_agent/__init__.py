"""Does the agent in JavaScript decide, compute and say what the one in Python does? Cases, and laws of its answers."""
