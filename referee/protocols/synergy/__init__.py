"""The tasks of the hybrid model that neither side can do alone."""
