"""A ledger on disk: a hash chain of entries in one SQLite file, none of which is ever changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import DatabaseError

from common.core.errors import BadMessage, BrokenLedger
from common.log import migrations
from common.log.database import open_tables, sqlite_url
from common.wire.primitives.chain import START, Extension, Head, link, linked


@dataclass(frozen=True)
class Entry:
    """One entry: what it is, and what it says."""

    kind: str
    body: dict[str, Any]


class Chain:
    """The entries of a ledger in memory and on disk. What a method has returned from is on disk.

    Commits go to the main file itself (no write-ahead log stays behind), so that a copy of the one file is a whole
    ledger, and one that is cut off is noticed.

    Parameters
    ----------
    path
        The SQLite file; created if absent, and brought to the newest schema.

    Raises
    ------
    BrokenLedger
        If it is no database, or its entries are not a chain: they were changed, taken out or put in another order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine, tables = open_tables(sqlite_url(path), migrations.__name__, log=False)
        self._table = tables["entries"]
        self._insert = insert(self._table)  # made once: to make a statement takes longer than to carry it out
        self.entries: list[Entry] = []
        self._links: list[str] = []
        self._hashes: list[str] = []
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def __len__(self) -> int:
        return len(self.entries)

    def _read(self) -> None:
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(select(self._table).order_by(self._table.c.position)).all()
        except DatabaseError as error:
            raise BrokenLedger(f"{self.path} cannot be read ({error.orig}): {REMEDY}") from None
        for row in rows:
            place, content = len(self.entries), ""
            try:
                body = json.loads(row.body)
                content = link(place, row.kind, body)
                sound = row.position == place and row.hash == self._next(content)
            except (ValueError, TypeError, RecursionError, BadMessage):  # no JSON, or nothing at all
                sound = False
            if not sound:
                raise BrokenLedger(
                    f"entry {place} of {self.path} does not follow the entry before it: the ledger was edited. {REMEDY}"
                )
            self._enter(Entry(row.kind, body), content)

    def append(self, kind: str, body: dict[str, Any]) -> Head:
        """Append an entry durably, and return the head that it makes.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the disk does not take it; nothing changed then.
        """
        place = len(self.entries)
        content = link(place, kind, body)
        values = {"position": place, "kind": kind, "body": json.dumps(body), "hash": self._next(content)}
        with self._engine.begin() as connection:
            connection.execute(self._insert, values)
        self._enter(Entry(kind, body), content)
        return self.head()

    def check_writable(self) -> None:
        """Begin to write, and take it back: nothing is changed.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the file cannot be read or written at present.
        """
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.execute(select(self._table.c.position).limit(1)).all()
            connection.rollback()

    def head(self, entries: int | None = None) -> Head:
        """Return the head after so many entries, by default all."""
        count = len(self.entries) if entries is None else entries
        return Head(chain=self._hashes[0], entries=count, hash=self._hashes[count - 1])

    def holds(self, head: Head) -> bool:
        """Tell whether a head is of this chain, as it is or as it was."""
        return head.entries <= len(self.entries) and self.head(head.entries) == head

    def extension(self, since: int, entries: int | None = None) -> Extension:
        """Return the head after so many entries, with the links that lead there from the first ``since`` entries."""
        head = self.head(entries)
        return Extension(head=head, since=since, links=tuple(self._links[since : head.entries]))

    def numbered(self) -> Iterator[tuple[int, Entry]]:
        """Yield each entry with the number of entries up to it."""
        return enumerate(self.entries, start=1)

    def _next(self, content: str) -> str:
        return linked(self._hashes[-1] if self._hashes else START, content)

    def _enter(self, entry: Entry, content: str) -> None:
        """Take over an entry, given its link."""
        self._hashes.append(self._next(content))
        self._links.append(content)
        self.entries.append(entry)


REMEDY = (
    "What was released counts as spent. Put the newest copy back (a curator's: curator restore COPY), or begin with "
    "new people or a new budget in a fresh directory"
)
"""What to do about a ledger that cannot be trusted."""
