"""Oblivious HTTP as bytes: Binary HTTP, key configurations, encapsulated requests and responses."""
