"""Hostile players of the fault histories: peers whose answers are drawn from kinds (docs/faults.md)."""
