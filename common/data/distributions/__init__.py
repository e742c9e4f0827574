"""Simulated distributions of people: record i is a function of (seed, i) alone. Registered by name."""
