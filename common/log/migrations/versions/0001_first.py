"""First version: the run that holds the budget, and its operations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "runs",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("policy", sa.String(64), nullable=False),
        sa.Column("referee", sa.String(64), nullable=False),
    )
    op.create_table(
        "operations",
        sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), primary_key=True),
        sa.Column("operation_id", sa.String(9), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False, unique=True),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=True),
    )


def downgrade() -> None:
    """Drop all tables."""
    op.drop_table("operations")
    op.drop_table("runs")
