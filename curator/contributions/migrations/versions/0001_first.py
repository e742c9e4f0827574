"""First version: what is kept, and whose was withdrawn."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "kept",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("contributor", sa.String(64), nullable=False, unique=True),
        sa.Column("contribution", sa.String(32), nullable=False, unique=True),
        sa.Column("envelope", sa.Text, nullable=False),
        sa.Column("time", sa.Integer, nullable=False),
    )
    op.create_table(
        "withdrawn",
        sa.Column("contributor", sa.String(64), primary_key=True),
        sa.Column("contribution", sa.String(32), nullable=False),
        sa.Column("time", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    """Drop all tables."""
    op.drop_table("withdrawn")
    op.drop_table("kept")
