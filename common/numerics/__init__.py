"""Numerical tools: compiled loops, elementary functions, randomness, bisection."""
