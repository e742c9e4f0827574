"""Queries: bounded questions about one record, as data. One class a file; each is registered and contract-tested."""
