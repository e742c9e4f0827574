"""The tables and figures of private domain adaptation (Bassily, Cortes, Mao and Mohri, ICML 2024) on public data sets.

``python -m benchmarks.adaptation`` prints the tables; docs/adaptation-tables.md says what they show.
"""
