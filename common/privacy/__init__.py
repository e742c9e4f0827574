"""Differential privacy: what happened (events), what it costs (accountants), how to plan for it."""
