"""Estimation: what the answers of many agents show about the population, and how surely.

Functions raise :class:`common.core.errors.BadInput` for numbers outside the ranges that they state.
"""
