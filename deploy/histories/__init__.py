"""Histories: the real parties of one small run under faults that a seed decides, and what must hold after each."""
