"""The law of the weights, and draws from it."""
