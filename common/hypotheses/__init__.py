"""Hypotheses: models as data, never code. One class a file; each is registered, validated and contract-tested."""
