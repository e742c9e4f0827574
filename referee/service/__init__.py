"""The referee as a service."""
