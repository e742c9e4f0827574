"""Carrying out a run: exchange with both sides, replay, result."""
