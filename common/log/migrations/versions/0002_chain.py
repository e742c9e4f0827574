"""One hash chain of entries in the place of runs and operations."""

import sqlalchemy as sa
from alembic import op

from common.core.errors import BrokenLedger
from common.core.version import BEFORE, release

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Replace the tables.

    Raises
    ------
    BrokenLedger
        If they hold anything: nothing vouches for entries that were not chained.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM runs")).scalar_one():
        raise BrokenLedger(
            f"the ledger was written by Tandem {BEFORE}, whose entries nothing vouches for, and this is Tandem "
            f"{release() or 'unreleased'}. Nothing was changed. Its whole budget "
            "counts as spent: finish its run with that version, or begin with new people or a new budget in a fresh "
            "directory"
        )
    op.drop_table("operations")
    op.drop_table("runs")
    op.create_table(
        "entries",
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
    )


def downgrade() -> None:
    """Bring the tables of the first version back, empty."""
    op.drop_table("entries")
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
