"""Several processes on one database: whose it is, which of them drives the runs, and what each has refused."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of the referee's key, of the lease and of what was refused."""
    op.create_table(
        "identity",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("key", sa.String(64), nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
    )
    op.create_table(
        "rejections",
        sa.Column("process", sa.String(64), primary_key=True),
        sa.Column("reason", sa.String(32), primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("rejections")
    op.drop_table("leases")
    op.drop_table("identity")
