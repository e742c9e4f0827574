"""What agents refuse by their own rules, for those who said it when they enrolled."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table of policies, by the first agent of whose they are."""
    op.create_table(
        "policies",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("policy", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("policies")
