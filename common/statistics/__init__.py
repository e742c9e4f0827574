"""Estimation: what the answers of many agents show about the population, and how surely."""
