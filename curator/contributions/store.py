"""Contributions on disk: sealed, one for each contributor, and overwritten when they are withdrawn."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError

from common.core import canonical
from common.core.database import DatabaseSchema, open_database, sqlite_url, storing
from common.core.errors import BrokenLedger
from common.crypto.identity import Signed

FILE = "contributions.sqlite"
SHARED = ""  # replaces a code's hash for records that were given with the shared token

_TABLES = sa.MetaData()
KEPT = sa.Table(
    "kept",
    _TABLES,
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("contributor", sa.String(64), nullable=False, unique=True),
    sa.Column("contribution", sa.String(32), nullable=False, unique=True),
    sa.Column("envelope", sa.Text, nullable=False),
    sa.Column("time", sa.Integer, nullable=False),
    sa.Column("code", sa.String(64), nullable=False, index=True),
)
"""Stored contributions, each with the hash of the code with which it was given."""
WITHDRAWN = sa.Table(
    "withdrawn",
    _TABLES,
    sa.Column("contributor", sa.String(64), primary_key=True),
    sa.Column("contribution", sa.String(32), nullable=False),
    sa.Column("time", sa.Integer, nullable=False),
    sa.Column("code", sa.String(64), nullable=False, index=True),
)
INVITED = sa.Table("invited", _TABLES, sa.Column("code", sa.String(64), primary_key=True))
SCHEMA = DatabaseSchema(
    "the contributions", _TABLES, remedy="Finish their run with that version, or collect them anew in a fresh directory"
)


@dataclass(frozen=True)
class StoredContribution:
    """One contribution.

    Attributes:
        position: Its number, from 0, in order of arrival. The position of a withdrawn contribution may be reused if it
            was the last one.
    """

    position: int
    envelope: Signed
    time: int


class Store:
    """The database of contributions; when a method returns, its changes are on disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._engine = open_database(sqlite_url(self.path), SCHEMA, log=False)

    def close(self) -> None:
        self._engine.dispose()

    def counts(self, code: str | None = None) -> tuple[int, int]:
        """Return how many contributions are stored, and how many were withdrawn, in total or with one code."""
        counts = []
        with self._reading() as connection:
            for table in (KEPT, WITHDRAWN):
                query = sa.select(sa.func.count()).select_from(table)
                query = query if code is None else query.where(table.c.code == code)
                counts.append(int(connection.execute(query).scalar_one()))
        return counts[0], counts[1]

    def invite(self, codes: Sequence[str]) -> None:
        with self._writing() as connection:
            connection.execute(sa.insert(INVITED), [{"code": code} for code in codes])

    def is_invited(self, code: str) -> bool:
        with self._reading() as connection:
            return connection.execute(sa.select(INVITED).filter_by(code=code)).first() is not None

    def invitations(self) -> tuple[int, int]:
        used_codes = sa.select(KEPT.c.code).where(KEPT.c.code != SHARED)
        with self._reading() as connection:
            invited = connection.execute(sa.select(sa.func.count()).select_from(INVITED)).scalar_one()
            used = connection.execute(sa.select(sa.func.count()).select_from(used_codes.subquery())).scalar_one()
        return int(invited), int(invited) - int(used)

    def find(self, contributor: str) -> StoredContribution | None:
        return next(self._select(KEPT.c.contributor == contributor), None)

    def find_name(self, contribution: str) -> StoredContribution | None:
        return next(self._select(KEPT.c.contribution == contribution), None)

    def withdrawal(self, contributor: str) -> tuple[str, int] | None:
        """Return the name of a contributor's withdrawn contribution and the time of the withdrawal; None if none."""
        with self._reading() as connection:
            row = connection.execute(sa.select(WITHDRAWN).filter_by(contributor=contributor)).one_or_none()
        return None if row is None else (row.contribution, row.time)

    def __iter__(self) -> Iterator[StoredContribution]:
        return self._select(sa.true())

    def _select(self, condition: sa.ColumnElement[bool]) -> Iterator[StoredContribution]:
        with self._reading() as connection:
            rows = connection.execute(sa.select(KEPT).where(condition).order_by(KEPT.c.position)).all()
        return (
            StoredContribution(row.position, Signed.parse(canonical.decode(row.envelope.encode())), row.time)
            for row in rows
        )

    def digest(self) -> str:
        """Return a digest of all stored contributions: of positions, contributors, and signatures."""
        return canonical.digest([[stored.position, stored.envelope.key, stored.envelope.signature] for stored in self])

    def add(self, envelope: Signed, contribution: str, time: int, code: str = SHARED) -> StoredContribution:
        """Store a contribution durably; ``code`` is the hash of the code with which it was given."""
        with self._writing() as connection:
            last = connection.execute(sa.select(sa.func.max(KEPT.c.position))).scalar_one()
            position = 0 if last is None else last + 1
            row = position, envelope.key, contribution, envelope.raw().decode("utf-8"), time, code
            connection.execute(sa.insert(KEPT).values(row))
        return StoredContribution(position, envelope, time)

    def withdraw(self, contributor: str, contribution: str, time: int) -> None:
        """Delete a contributor's contribution, and durably record that none of it may be accepted again."""
        with self._writing() as connection:
            condition = KEPT.c.contributor == contributor
            code = connection.execute(sa.select(KEPT.c.code).where(condition)).scalar_one()
            connection.execute(sa.delete(KEPT).where(condition))
            values = {"contributor": contributor, "contribution": contribution, "time": time, "code": code}
            connection.execute(sa.insert(WITHDRAWN).values(values))

    def check_writable(self) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except DatabaseError as error:
            raise BrokenLedger(f"{self.path} cannot be read ({error.orig}): put the file back") from None

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with storing("contributions", "nothing changed"), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.commit()
