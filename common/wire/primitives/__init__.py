"""What signed messages and histories are made with, by the standards that each file names."""
