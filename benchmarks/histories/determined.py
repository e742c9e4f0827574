"""Randomness and time of a history, which its seed gives, and what makes histories quick without changing them."""

from __future__ import annotations

import gc
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from common.core import durable
from common.log import ledger
from common.numerics import randomness
from curator import state
from local_agent.hosted import population
from referee.runs import ordering

BEGAN = 1_700_000_000.0
"""The time of day at which a history begins, seconds."""


class Clock:
    """Seconds since a history began: nothing else moves it."""

    now = 0.0


class Drawn(random.Random):
    """A generator of the seed, for the thread alone that made it: another one would draw at a time of its own."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self._thread = threading.get_ident()

    def getrandbits(self, count: int) -> int:
        """Draw bits: bytes and choices are made of them."""
        self._check()
        return super().getrandbits(count)

    def random(self) -> float:
        """Draw a number in [0, 1)."""
        self._check()
        return super().random()

    def _check(self) -> None:
        if threading.get_ident() != self._thread:
            raise AssertionError("another thread draws: the seed does not say when")


class AtOnce:
    """A pool of threads that does all work when it is given: nothing happens at a time that the seed does not say."""

    def __init__(self, *settings: Any) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Do it, and return what came of it."""
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done

    def shutdown(self) -> None:
        """Have nothing left to do."""


class _Module:
    """A module as a party's sees it, with some of its names others."""

    def __init__(self, module: Any, **others: Any) -> None:
        self._module = module
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def determined(seed: int, clock: Clock) -> Iterator[None]:
    """Let what parties draw, and what time it is, follow from a seed and the history's clock; nobody sleeps.

    Keys of the parties are among what they draw; neither libsodium's nor OpenSSL's own generator is asked here.
    """
    drawn = Drawn(f"drawn {seed}")
    with ExitStack() as patched:
        # In the parties' own modules, and for no library: one that compiles draws names for its files.
        for module in (randomness, durable):
            patched.enter_context(patch.object(module, "os", _Module(os, urandom=drawn.randbytes)))
        hexadecimal = _Module(secrets, token_hex=lambda size=32: drawn.randbytes(size).hex())
        for user in (ledger, ordering, population):
            patched.enter_context(patch.object(user, "secrets", hexadecimal))
        patched.enter_context(patch.object(state, "Worker", AtOnce))
        patched.enter_context(patch.object(time, "time", lambda: BEGAN + clock.now))
        patched.enter_context(patch.object(time, "monotonic", lambda: clock.now))
        patched.enter_context(patch.object(time, "sleep", lambda seconds: None))
        yield


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
        _created(self, *given, **options)  # type: ignore[arg-type]  # whatever an engine is made of is handed on
        self.update_execution_options(compiled_cache=_COMPILED)

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
