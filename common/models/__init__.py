"""Usable models: a run's public answer with the public rules by which columns become features."""
