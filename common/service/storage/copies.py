"""Copies of a party's database and keys, made while the party is at work."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from common.core.errors import BadInput
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
