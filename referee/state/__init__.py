"""What the referee keeps on disk."""
