"""The referee's database: its schema, and what more than one group of queries writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, insert

from common.service.database import open_tables
from common.wire.transcript import Entry
from referee.state import migrations


class Tables:
    """The tables of a database.

    Parameters
    ----------
    url
        SQLAlchemy URL; the schema is brought up to date.
    """

    def __init__(self, url: str) -> None:
        self._engine, self._tables = open_tables(url, migrations.__name__)

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def _table(self, name: str) -> Table:
        return self._tables[name]

    def _insert_all(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert many rows in one transaction, without what SQLAlchemy does for each value."""
        names = ", ".join(f'"{name}"' for name in columns)
        mark = "?" if self._engine.dialect.paramstyle == "qmark" else "%s"
        marks = ", ".join([mark] * len(columns))
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(rows))  # noqa: S608 - our own names

    def _insert_entry(self, run: str, entry: Entry, step: int | None) -> Any:
        return insert(self._table("entries")).values(
            run=run, index=entry.index, step=step, kind=entry.kind, line=entry.line()
        )
