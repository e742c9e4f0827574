"""Protocols of agents alone."""
