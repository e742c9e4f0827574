"""First version: invitation codes, and the request that each was used for."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "codes",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("request", sa.String(64), nullable=True),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("codes")
