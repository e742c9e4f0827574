"""The curator: it holds the records of the few people who trust it and performs a fixed set of operations."""
