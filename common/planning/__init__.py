"""Planning: from a scenario to numbers, each with its formula and its source."""
