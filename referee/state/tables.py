"""The referee's database: its schema, who may write what when, and what more than one group of queries writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, insert, select, text, update

from common.core.database import alone, count_commits, database_bytes, open_tables
from common.core.errors import Superseded
from common.log.transcript import Entry
from referee.state import migrations

Kind = TypeVar("Kind")

ENROLLING, REPORTING, LEASING = 1, 2, 3
"""Turns (:func:`common.core.database.alone`): participants, reports and the lease are each written by one
process at a time. Nobody takes a second turn in one transaction."""
DRIVER = "driver"
"""The name of the lease: its holder drives all runs."""


class Tables:
    """The tables of a database.

    Parameters
    ----------
    url
        SQLAlchemy URL; the schema is brought up to date.

    Attributes
    ----------
    fence
        The fencing token of this process while it drives the runs (:mod:`referee.state.store`).
    commits
        Returns how many transactions this process has committed.
    """

    def __init__(self, url: str) -> None:
        self._engine, self._tables = open_tables(url, migrations.__name__)
        self.fence: int | None = None
        self.commits = count_commits(self._engine)
        self._kept: dict[str, Any] = {}
        self._newest: dict[str, tuple[int, Entry]] = {}

    def bytes(self) -> int:
        """Return how many bytes the database takes on disk."""
        return database_bytes(self._engine.url.render_as_string(hide_password=False))

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def _table(self, name: str) -> Table:
        return self._tables[name]

    def _once(self, name: str, make: Callable[[], Kind]) -> Kind:
        """Return a statement that is made once and then kept: to make one takes longer than to carry it out."""
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = make()
        return found

    # Transactions ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, turn: int) -> Iterator[Connection]:
        """Begin a transaction that no other process has of the same turn; what the ones before wrote is seen."""
        with self._engine.begin() as connection:
            alone(connection, turn)
            yield connection

    @contextmanager
    def _driving(self, turn: int = LEASING) -> Iterator[Connection]:
        """Begin a transaction of the driver: it holds the lease until the transaction has ended.

        Raises
        ------
        Superseded
            If it does not: nothing is written then.
        """
        with self._engine.begin() as connection:
            if turn != LEASING or connection.dialect.name == "sqlite":
                alone(connection, turn)
            # The shared lock on the row lets nobody take the lease before this transaction has ended.
            if connection.execute(self._once("held", self._held)).scalar() != self.fence:
                self.fence = None
            self.check_driving()
            yield connection

    def _held(self) -> Select[Any]:
        leases = self._table("leases")
        return select(leases.c.token).where(leases.c.name == DRIVER).with_for_update(read=True)

    def check_driving(self) -> None:
        """Stop a driver that waits for others, if it has learned that it does not drive any more.

        Raises
        ------
        Superseded
            If this process holds no lease.
        """
        if self.fence is None:
            raise Superseded("another process drives the runs of this referee: this one writes nothing")

    def _now(self, connection: Connection) -> float:
        """Return the time of the database, which all of its processes share, in seconds."""
        if connection.dialect.name == "sqlite":
            return time.time()
        return float(connection.execute(text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")).scalar_one())

    def check_writable(self) -> None:
        """Begin to write, and take it back: nothing is changed, and nothing waits for a disk.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the database cannot be reached, read or written at present.
        """
        identity = self._table("identity")
        with self._engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.execute(update(identity).values(key=identity.c.key))
            connection.rollback()

    # Rows -----------------------------------------------------------------------------------------------------------

    def _insert_all(
        self, connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert many rows, without what SQLAlchemy does for each value."""
        if not rows:
            return
        names = ", ".join(f'"{name}"' for name in columns)
        if connection.dialect.name == "sqlite":
            marks = ", ".join("?" * len(columns))
            connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(rows))  # noqa: S608 - our own names
            return
        types = [self._table(table).c[name].type.compile(connection.dialect) for name in columns]
        arrays = ", ".join(f"%b::{kind}[]" for kind in types)  # binary: a fifth of the time that text takes
        connection.exec_driver_sql(
            f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays})",  # noqa: S608 - our own names
            tuple(list(column) for column in zip(*rows, strict=True)),
        )

    def _insert_entry(self, connection: Connection, run: str, entry: Entry, step: int | None) -> int | None:
        """Append an entry to a run's transcript; returns the token under which it was, for :meth:`_appended`."""
        row = {"run": run, "index": entry.index, "step": step, "kind": entry.kind, "line": entry.line()}
        connection.execute(self._once("entry", lambda: insert(self._table("entries"))), row)
        return self.fence  # until the transaction has ended, nobody takes the lease

    def _appended(self, run: str, entry: Entry, fence: int | None) -> None:
        """Remember the newest entry of a run, which is on disk: under one token nobody else appends any."""
        if fence is not None:
            self._newest[run] = fence, entry
