"""Verifying a run offline."""
