"""First version: tokens, participants, cohorts, runs, exchanges, reports, transcript entries."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "tokens",
        sa.Column("purpose", sa.String(16), primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
    )
    op.create_table(
        "participants",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False, unique=True),
        sa.Column("agents", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cohorts",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("agents", sa.BigInteger, nullable=False),
        sa.Column("seed", sa.String(64), nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, nullable=False, unique=True),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("scenario", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("configuration", sa.Text, nullable=True),
        sa.Column("result", sa.Text, nullable=True),
    )
    op.create_table(
        "questions",
        sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), primary_key=True),
        sa.Column("question", sa.Integer, primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("parts", sa.Text, nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
    )
    op.create_table(
        "reports",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("question", sa.Integer, primary_key=True),
        sa.Column("participant", sa.String(64), primary_key=True),
        sa.Column("report_id", sa.String(32), nullable=False),
        sa.Column("answered_count", sa.BigInteger, nullable=False),
        sa.Column("header", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("run", "report_id"),
    )
    op.create_table(
        "entries",
        sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("step", sa.Integer, nullable=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("line", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop all tables."""
    for table in ("entries", "reports", "questions", "runs", "cohorts", "participants", "tokens"):
        op.drop_table(table)
