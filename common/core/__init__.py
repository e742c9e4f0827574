"""Values, errors, registries: what everything else is made of; knows nothing of privacy."""
