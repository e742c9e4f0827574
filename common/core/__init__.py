"""Values, errors, registries, files: the base of all other packages, independent of privacy."""
