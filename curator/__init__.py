"""The curator: holds the records of the few who trust it and answers a fixed set of operations."""
