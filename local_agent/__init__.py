"""The local agent: one person, one record, randomized answers within a budget; and a hosted population of many."""
