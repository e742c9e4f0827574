"""Copies of a party's database and keys, made while the party is at work."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from common.core import folder as files
from common.core.errors import BadData, BadInput
from common.core.plain import plain
from common.wire.state import make_folder


def place_for_copy(copy: Path) -> None:
    """Make a directory for a copy, which only its owner can enter, as it will hold secrets.

    Raises
    ------
    BadInput
        If there is something in it.
    """
    if copy.exists() and (not copy.is_dir() or any(copy.iterdir())):
        raise BadInput(f"{copy} is not empty: give a new directory for every copy")
    make_folder(copy, mode=0o700)
    copy.chmod(0o700)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite database as of one moment, while others write to it: what is in its write-ahead log comes along.

    A copy of the files by other means can take the file of one moment and the log of another.
    """
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copied:
        live.backup(copied)


@contextmanager
def opened_copy(place: Path, name: str, kind: files.Kind, tables: frozenset[str]) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that another party may have written, for reading alone, and only if it is nothing but tables.

    Nothing in it is carried out: it has no triggers, views, virtual tables or generated columns, and no log beside it
    that would be laid over it.

    Raises
    ------
    NotFound
        If there is none.
    BadData
        If it is no such file; says why.
    """
    with files.opened(Path(name), kind, place):
        pass
    for beside in (f"{name}-wal", f"{name}-journal"):
        if files.present(place, beside):
            raise BadData(f"beside {place / name} lies {beside}, and a copy is one file: make the copy again")
    address = f"{(place / name).absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            for what, found in connection.execute("SELECT type, name FROM sqlite_master ORDER BY rowid"):
                if what not in ("table", "index") or (what == "table" and found not in tables):
                    shown = plain(f"the {what} {found}")
                    raise BadData(f"{place / name} holds {shown}, which no {kind.words} has: find another copy")
            for table in tables:
                if any(row[-1] for row in connection.execute(f"PRAGMA table_xinfo({table})")):
                    raise BadData(f"{place / name} works out a column of {table}, which no {kind.words} does")
            yield connection
    except sqlite3.Error as error:
        raise BadData(f"{place / name} cannot be read as a database ({plain(str(error))}): find another copy") from None
