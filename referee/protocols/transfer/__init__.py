"""Protocols that learn a hypothesis for the population."""
