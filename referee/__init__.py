"""The referee: drives protocols, enforces who may speak, keeps the ledger and the transcript."""
