"""Simulated people around Gaussian centres."""
