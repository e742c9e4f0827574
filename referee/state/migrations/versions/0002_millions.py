"""Millions of reports: numbered questions, short rows, and no index that grows in random places."""

import sqlalchemy as sa
from alembic import op

from common.core.errors import BadInput
from common.core.version import BEFORE, release

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Replace the tables of participants, questions and reports; only in a database without runs."""
    _check_empty()
    for table in ("reports", "questions", "participants"):
        op.drop_table(table)
    op.create_table(
        "participants",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("agents", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "questions",
        sa.Column("key", sa.Integer, primary_key=True),
        sa.Column("run", sa.String(64), sa.ForeignKey("runs.run"), nullable=False),
        sa.Column("question", sa.Integer, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("parts", sa.Text, nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("answered", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("run", "question"),
    )
    op.create_table(
        "reports",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("question", sa.Integer, nullable=False, index=True),
        sa.Column("slot", sa.BigInteger, nullable=False),
        sa.Column("individual", sa.Boolean, nullable=False),
        sa.Column("report_id", sa.LargeBinary(16), nullable=False),
        sa.Column("answered", sa.BigInteger, nullable=False),
        sa.Column("signature", sa.LargeBinary(64), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("message", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Take the tables back to how they were; only in a database without runs."""
    _check_empty()
    for table in ("reports", "questions", "participants"):
        op.drop_table(table)
    op.create_table(
        "participants",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("first", sa.BigInteger, nullable=False, unique=True),
        sa.Column("agents", sa.BigInteger, nullable=False),
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


def _check_empty() -> None:
    tables = ("runs", "participants")
    found = sum(op.get_bind().execute(sa.text(f"SELECT COUNT(*) FROM {table}")).scalar_one() for table in tables)  # noqa: S608
    if found:
        raise BadInput(
            f"this database holds runs or agents of Tandem {BEFORE}, and this is Tandem {release() or 'unreleased'}, "
            "which keeps reports in another form. Nothing was changed: end its runs and audit them with that version, "
            "or begin with a new state directory, in which agents that have answered refuse to answer again"
        )
