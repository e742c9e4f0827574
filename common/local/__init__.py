"""What is evaluated on one record, and how the value is randomized: records, hypotheses, queries, mechanisms."""
