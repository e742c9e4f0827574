"""The curator as a service: budget, keys, requests."""
