"""Mechanisms that count: people by cell, by value, with a property."""
