"""Contributions on disk: sealed, one for each contributor, and really overwritten when they are withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from common.core import canonical
from common.core.errors import BrokenLedger, CannotWrite
from common.service.storage.database import open_tables, sqlite_url
from common.wire.identity import Signed
from curator.contributions import migrations

FILE = "contributions.sqlite"


@dataclass(frozen=True)
class Held:
    """One contribution.

    Attributes
    ----------
    position
        Its number, from 0, in the order in which they came. A place that was withdrawn may be taken again if it was
        the last one.
    envelope
        As its contributor signed it.
    time
        When it was stored, seconds since 1970.
    """

    position: int
    envelope: Signed
    time: int


@dataclass(frozen=True)
class Gone:
    """What is left of a contribution that was withdrawn: its name, and when."""

    contribution: str
    time: int


class Store:
    """What a method has returned from is on disk.

    Parameters
    ----------
    folder
        Where the SQLite file is; commits go to the file itself, and what is deleted in it is overwritten with zeros.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._engine, tables = open_tables(sqlite_url(self.path), migrations.__name__, log=False)
        self._kept, self._withdrawn = tables["kept"], tables["withdrawn"]

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def counts(self) -> tuple[int, int]:
        """Return how many contributions are kept, and how many were withdrawn."""
        with self._reading() as connection:
            kept = connection.execute(select(func.count()).select_from(self._kept)).scalar_one()
            gone = connection.execute(select(func.count()).select_from(self._withdrawn)).scalar_one()
        return kept, gone

    def find(self, contributor: str) -> Held | None:
        """Return the contribution of a contributor."""
        return self._one(self._kept.c.contributor == contributor)

    def named(self, contribution: str) -> Held | None:
        """Return the contribution of a name."""
        return self._one(self._kept.c.contribution == contribution)

    def gone(self, contributor: str) -> Gone | None:
        """Return what a contributor has withdrawn."""
        with self._reading() as connection:
            row = connection.execute(select(self._withdrawn).filter_by(contributor=contributor)).one_or_none()
        return None if row is None else Gone(row.contribution, row.time)

    def __iter__(self) -> Iterator[Held]:
        """Yield all that is kept, in the order of positions."""
        with self._reading() as connection:
            rows = connection.execute(select(self._kept).order_by(self._kept.c.position)).all()
        return (self._held(row) for row in rows)

    def digest(self) -> str:
        """Return a digest of all that is kept: of positions, contributors, and what they signed."""
        return canonical.digest([[held.position, held.envelope.key, held.envelope.signature] for held in self])

    def add(self, envelope: Signed, contribution: str, time: int) -> Held:
        """Keep a contribution, durably.

        Raises
        ------
        CannotWrite
            If the disk does not take it; nothing changed then.
        """
        values = {
            "contributor": envelope.key,
            "contribution": contribution,
            "envelope": envelope.raw().decode("utf-8"),
            "time": time,
        }
        with self._writing() as connection:
            last = connection.execute(select(func.max(self._kept.c.position))).scalar_one()
            position = 0 if last is None else last + 1
            connection.execute(insert(self._kept).values(position=position, **values))
        return Held(position, envelope, time)

    def withdraw(self, contributor: str, contribution: str, time: int) -> Gone:
        """Delete what a contributor contributed, if anything, and remember that nothing of it is to be taken, durably.

        Raises
        ------
        CannotWrite
            If the disk does not take it; nothing changed then.
        """
        with self._writing() as connection:
            connection.execute(delete(self._kept).where(self._kept.c.contributor == contributor))
            values = {"contributor": contributor, "contribution": contribution, "time": time}
            connection.execute(insert(self._withdrawn).values(values))
        return Gone(contribution, time)

    def check_writable(self) -> None:
        """Begin to write, and take it back.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the file cannot be read or written at present.
        """
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.rollback()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except DatabaseError as error:
            raise BrokenLedger(f"{self.path} cannot be read ({error.orig}): put the file back") from None

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
        except (OSError, SQLAlchemyError) as error:
            why = str(getattr(error, "orig", None) or error)
            raise CannotWrite(
                f"contributions cannot be written ({why}); nothing changed. Make room or make the place writable: the "
                f"same request is then answered"
            ) from None

    def _one(self, condition: object) -> Held | None:
        with self._reading() as connection:
            row = connection.execute(select(self._kept).where(condition)).one_or_none()  # type: ignore[arg-type]
        return None if row is None else self._held(row)

    def _held(self, row: object) -> Held:
        envelope = Signed.parse(canonical.decode(row.envelope.encode("utf-8")))  # type: ignore[attr-defined]
        return Held(row.position, envelope, row.time)  # type: ignore[attr-defined]
