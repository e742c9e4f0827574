"""The real parties of a small run under seeded faults, and what must hold after it (docs/faults.md)."""
