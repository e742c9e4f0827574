"""Benchmarks and slow experiments: ``python -m benchmarks.NAME [--json]``."""
