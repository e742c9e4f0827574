"""What parties can say to each other: records, hypotheses, queries, mechanisms, operations."""
