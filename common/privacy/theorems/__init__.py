"""Theorems on the privacy cost of releases, one per file, with proof or source."""
