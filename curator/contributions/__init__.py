"""Records that people give a curator themselves: sealed to its key, accepted once, deletable until the run begins."""
