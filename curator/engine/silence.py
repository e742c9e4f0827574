"""Keep what an operation's code prints off the curator's streams: a loss on the standard output is a release, too."""

from __future__ import annotations

import io
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_LOCK = threading.Lock()
_SILENT: Counter[int] = Counter()
"""How often each thread has been silenced."""
_BEFORE: list[TextIO] = []


class _Filter(io.TextIOBase):
    """A stream that swallows what silenced threads write, and passes on what others do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return len(text) if _SILENT[threading.get_ident()] else self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def silence() -> Iterator[None]:
    """Swallow all that this thread writes to the standard output and error, warnings included.

    Other threads write as before. Code that is not Python, and that writes to the descriptors themselves, is not
    stopped: no classifier of scikit-learn does, unless it is given ``verbose``, which is refused
    (:mod:`common.vocabulary.learners.parameters`).
    """
    own = threading.get_ident()
    with _LOCK:
        if not _SILENT.total():
            _BEFORE[:] = [sys.stdout, sys.stderr]
            sys.stdout, sys.stderr = (_Filter(stream) for stream in _BEFORE)
        _SILENT[own] += 1
    try:
        yield
    finally:
        with _LOCK:
            _SILENT[own] -= 1
            if not _SILENT.total():
                _SILENT.clear()
                sys.stdout, sys.stderr = _BEFORE
