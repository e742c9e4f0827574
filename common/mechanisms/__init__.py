"""Local mechanisms: randomize one bounded value, and estimate from many. One class a file, registered and audited."""
