"""Which run the present thread or task works for: what it logs names that run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_RUN: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def about_run(run: str) -> Iterator[None]:
    """Work for a run until the block ends; a run inside a run is the inner one's."""
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)


def present_run() -> str:
    """Return the run that is worked for; empty if none is."""
    return _RUN.get()
