"""Ways to keep the records of a shard."""
