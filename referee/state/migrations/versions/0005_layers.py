"""Seeds of orders are as long as there are runs that took a part in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Let the seed of an order have any length."""
    with op.batch_alter_table("cohorts") as table:
        table.alter_column("seed", existing_type=sa.String(64), type_=sa.Text, existing_nullable=False)


def downgrade() -> None:
    """Let it have 64 characters, as one secret has."""
    with op.batch_alter_table("cohorts") as table:
        table.alter_column("seed", existing_type=sa.Text, type_=sa.String(64), existing_nullable=False)
