"""Migrations of the curator's ledger (Alembic)."""
