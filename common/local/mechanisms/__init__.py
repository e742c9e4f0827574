"""Local mechanisms: randomize one bounded value, estimate from many. One class a file, registered."""
