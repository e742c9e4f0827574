"""Differential privacy: events (what was released), accountants (what it costs), and planning."""
