"""Local mechanisms: randomize one bounded value, and estimate from many answers. Each class is registered."""
