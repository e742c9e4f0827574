"""Mutants of the privacy code: is there a fast test that fails for each? See docs/mutants.md."""
