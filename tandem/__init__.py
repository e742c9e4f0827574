"""Tandem: hybrid-model differential privacy. The one name that an installed Tandem has."""
