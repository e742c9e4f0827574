"""The local agent: one person, one record, at most one randomized answer; and a hosted population of many."""
