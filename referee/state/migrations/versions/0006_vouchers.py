"""What issuers have given participants, for those who showed it when they enrolled."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table of vouchers, by the first agent of whom they are for."""
    op.create_table(
        "vouchers",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("voucher", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("vouchers")
