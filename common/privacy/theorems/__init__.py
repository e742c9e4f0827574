"""Theorems on the privacy cost of releases, one per file, with proof or source.

Functions raise :class:`common.core.errors.BadInput` for numbers outside the ranges that they state.
"""
