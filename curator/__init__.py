"""The curator: holds the records of the few who trust it and answers a fixed vocabulary of operations."""
