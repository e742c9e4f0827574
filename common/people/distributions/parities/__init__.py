"""Simulated people whose labels are parities."""
