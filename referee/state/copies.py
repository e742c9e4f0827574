"""A copy of a referee on SQLite, made while it serves: database and key, which are of no use without each other."""

from __future__ import annotations

from pathlib import Path

from common.core.database import copy_sqlite, place_for_copy
from common.core.durable import write_durably
from common.core.errors import BadInput

KEY, DATABASE = "identity.key", "referee.sqlite"


def backup(state: Path, copy: Path, key: Path | None = None) -> None:
    """Copy a referee's database and signing key; the copy is a state directory to start from.

    Parameters
    ----------
    state
        The referee's state directory, with a database on SQLite in it.
    copy
        A directory that does not exist, or is empty; made with mode 0700, since it holds the signing key.
    key
        The key's file, where it is not in the state directory.

    Raises
    ------
    BadInput
        If there is no such database or key, or the place is taken.
    """
    key = key or state / KEY
    if not (state / DATABASE).exists():
        raise BadInput(f"{state} holds no {DATABASE}: a database on PostgreSQL is copied with pg_dump")
    if not key.exists():
        raise BadInput(f"there is no key {key}: give the file that the referee is started with (--key)")
    place_for_copy(copy)
    copy_sqlite(state / DATABASE, copy / DATABASE)
    write_durably(copy / KEY, key.read_bytes(), mode=0o600)
