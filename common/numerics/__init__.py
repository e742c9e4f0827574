"""Compiled loops, randomness, bisection: numbers without meaning."""
