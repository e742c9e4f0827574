"""What makes histories quick, and changes nothing in them: statements are compiled once, and garbage waits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

_COMPILED: LRUCache[object, object] = LRUCache(2000)
"""Statements, by what they are: all SQLite files speak one dialect."""
_created = Engine.__init__


@cache
def _settle() -> None:
    """Never look at what was imported again: it is no garbage."""
    gc.collect()
    gc.freeze()


@contextmanager
def quick() -> Iterator[None]:
    """Share compiled statements among databases that are opened in the block, and collect no garbage before its end."""

    def created(self: Engine, *given: object, **options: object) -> None:
        _created(self, *given, **options)  # type: ignore[arg-type]
        self._compiled_cache = _COMPILED  # type: ignore[assignment]

    _settle()
    collects = gc.isenabled()
    gc.disable()
    try:
        with (
            patch.object(Engine, "__init__", created),
            patch.object(SQLiteDialect_pysqlite, "__eq__", lambda self, other: type(self) is type(other)),
            patch.object(SQLiteDialect_pysqlite, "__hash__", lambda self: hash(type(self))),
        ):
            yield
    finally:
        if collects:
            gc.enable()
