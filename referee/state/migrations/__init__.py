"""Migrations of the referee's database (Alembic)."""
