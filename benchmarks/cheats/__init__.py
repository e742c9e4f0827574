"""Parties that cheat, and what the audit prints about each of them."""
