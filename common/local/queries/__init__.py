"""Queries: bounded questions about one record, as data. Each class is registered and contract-tested."""
