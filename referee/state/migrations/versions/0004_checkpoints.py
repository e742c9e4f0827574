"""Checkpoints of runs' transcripts, with what witnesses have signed of them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table of checkpoints."""
    op.create_table(
        "checkpoints",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("entries", sa.Integer, primary_key=True),
        sa.Column("kept", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("checkpoints")
