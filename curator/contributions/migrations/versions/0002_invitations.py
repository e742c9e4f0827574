"""Invitation codes, and by which code something was given: empty for the token that all share."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Count what was given with each code; what is there was given with the shared token."""
    for table in ("kept", "withdrawn"):
        op.add_column(table, sa.Column("code", sa.String(64), nullable=False, server_default=""))
        op.create_index(f"{table}_code", table, ["code"])
    op.create_table("invited", sa.Column("code", sa.String(64), primary_key=True))


def downgrade() -> None:
    """Forget codes."""
    op.drop_table("invited")
    for table in ("kept", "withdrawn"):
        op.drop_index(f"{table}_code", table)
        op.drop_column(table, "code")
