"""Hypotheses: predictors of a label or a value from one record, as frozen values; registered and contract-tested."""
