"""Append-only logs: entries, transcripts and ledgers, their signed heads, and witnesses that store heads."""
