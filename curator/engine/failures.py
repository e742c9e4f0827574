"""What an operation's code may let out: one constant sentence where it fails, and nothing on the standard streams."""

from __future__ import annotations

import io
import logging
import sys
import threading
import traceback
from asyncio import CancelledError
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from common.core.errors import OperationFailed

ENDING = (SystemExit, GeneratorExit, CancelledError)
"""What is no Exception and may come out of an operation's code; a person's interrupt is none of these."""
LOGGER = logging.getLogger(__name__)


@contextmanager
def constant_failure(kind: str) -> Iterator[None]:
    """Turn whatever an operation's code raises into one constant problem; log its type and its line, never its text.

    The text of an exception may quote a record, and which exception it is may depend on one. That there was a failure
    cannot be hidden from whoever waits for a release; so no learner of ours fails for some samples and not for others,
    unless its settings are to blame (:meth:`curator.learners.base.Learner.check`).

    Raises:
        OperationFailed: For every Exception, and for what would end a thread: code that exits has failed as well.
    """
    try:
        yield
    except (Exception, *ENDING) as error:  # noqa: BLE001 - which one it is may depend on a record
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].name}, line {frames[-1].lineno}" if frames else "nowhere"
        LOGGER.error("operation %s failed: %s in %s", kind, type(error).__name__, where)
        raise OperationFailed(
            f"the operation {kind!r} failed inside the curator and released nothing; its charge stays. "
            f"The curator's operator finds the reason in its log: without a change there, it will fail again"
        ) from None


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
    (:mod:`common.learners.scikit`).
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
