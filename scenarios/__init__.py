"""Shipped scenarios (YAML), read as package data."""
