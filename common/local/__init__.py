"""Functions of one record, and how their values are randomized: records, hypotheses, queries, mechanisms."""
