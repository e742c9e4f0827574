"""Simulated distributions of people: record i is a function of (seed, i) alone. One class a file, registered."""
