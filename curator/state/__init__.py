"""What the curator keeps on disk."""
