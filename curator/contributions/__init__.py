"""Records that people contribute to a curator: sealed to its key, accepted once, deletable until the run begins."""
