"""A scenario: what to run, as one YAML file with a closed set of keys."""
