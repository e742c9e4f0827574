"""Benchmarks and slower evidence: ``python -m benchmarks.NAME [--json]``."""
