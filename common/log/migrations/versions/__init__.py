"""The versions of the curator's ledger, oldest first."""
