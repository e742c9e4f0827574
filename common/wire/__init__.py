"""Signed messages, transcripts and keys, as they travel and as they are kept."""
