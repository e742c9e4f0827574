"""Cases for the empirical privacy audit: mechanisms as they are, and broken twins."""
