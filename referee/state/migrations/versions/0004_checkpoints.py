"""Checkpoints of runs' transcripts, with what witnesses have signed of them; open questions are found by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table of checkpoints and the index."""
    op.create_table(
        "checkpoints",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("entries", sa.Integer, primary_key=True),
        sa.Column("kept", sa.Text, nullable=False),
    )
    op.create_index("ix_questions_open", "questions", ["open"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_questions_open", "questions")
    op.drop_table("checkpoints")
