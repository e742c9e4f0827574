"""The cases of the audit, by whose code is under it."""
