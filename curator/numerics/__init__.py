"""The curator's own numerical methods."""
