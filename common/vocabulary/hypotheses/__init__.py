"""Hypotheses: models as data, never code. One class a file, registered, validated, contract-tested."""
