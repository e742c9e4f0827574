"""The weights of a curator's sample on disk: files that spare a restart, and that nothing depends on.

They are there so that a restarted curator need not compute all of them again. What happened is in the ledger,
and every reweigh is a deterministic function of a public hypothesis: a file of weights is written seldom, in a thread
of its own, and used only if it is beyond doubt.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.threads import Worker

log = logging.getLogger("tandem")

EVERY = 16
"""Most reweighs that a restart computes again."""
SECONDS = 3.0
"""Most seconds of reweighs that a restart computes again, and those of one reweigh more."""
_PIECE = 1 << 22
_SEAL = 32


class Checkpoints:
    """Files ``weights-T``: one line of JSON, the scores of each shard, and HMAC-SHA256 over all of it.

    The key is the curator's own, and the line says after which history of operations the scores were as they are. So a
    file that was damaged, cut off, renamed, or comes from another curator or another history is noticed.

    Args:
        folder: The curator's state directory.
        key: Secret, 32 bytes.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key
        self.worker = Worker("weights")
        self._writing: Future[None] | None = None
        self._last = 0
        self._seconds = 0.0

    def close(self) -> None:
        self.worker.shutdown()

    def settle(self) -> None:
        """Wait until nobody reads the scores: they may change from now on."""
        writing, self._writing = self._writing, None
        if writing is not None and (error := writing.exception()) is not None:
            # Its text might hold records; the weights are computed again from the ledger.
            log.warning("the weights could not be stored, and were not: %s", type(error).__name__)

    def offer(
        self, updates: int, seconds: float, lineage: str, cumulative_losses: Callable[[], Iterable[AnyArray]]
    ) -> None:
        """Begin to write the scores, if it is time again; they must not change until :meth:`settle`.

        Args:
            updates: Number of reweighs, t; all of them are in the ledger.
            seconds: How long the last of them took.
            lineage: Digest of all operations up to that one.
            cumulative_losses: Yields those of each shard.
        """
        self._seconds += seconds
        if updates - self._last < EVERY and self._seconds < SECONDS:
            return
        self.settle()
        self._last, self._seconds = updates, 0.0
        self._writing = self.worker.submit(self._write, updates, lineage, cumulative_losses)

    def _write(self, updates: int, lineage: str, cumulative_losses: Callable[[], Iterable[AnyArray]]) -> None:
        part = self._folder / "weights.part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                seal = hmac.new(self._key, digestmod="sha256")

                def put(content: bytes | memoryview) -> None:
                    for start in range(0, len(content), _PIECE):
                        piece = content[start : start + _PIECE]
                        seal.update(piece)
                        file.write(piece)

                put(json.dumps({"updates": updates, "lineage": lineage}).encode() + b"\n")
                for shard in cumulative_losses():
                    put(json.dumps([shard.dtype.str, len(shard)]).encode() + b"\n")
                    put(shard.data.cast("B"))
                file.write(seal.digest())
                os.fsync(file.fileno())
            os.replace(part, self._folder / f"weights-{updates}")
        except OSError as error:
            log.warning("the weights after reweigh %d could not be stored, and were not: %s", updates, error)
            return
        for old in self._files():
            if old.name != f"weights-{updates}":
                old.unlink(missing_ok=True)

    def load(self, lineages: list[str]) -> tuple[int, list[AnyArray]] | None:
        """Return the newest stored weights that belong to this history: after how many reweighs, and each shard's.

        Args:
            lineages: For each finished reweigh, in order, the digest of all operations up to it.
        """
        self.settle()
        for path in sorted(self._files(), key=lambda path: path.stat().st_mtime_ns, reverse=True):
            found = self._read(path, lineages)
            if isinstance(found, str):
                log.warning("%s is not used, it %s; the weights are computed again from the ledger", path, found)
            else:
                self._last, self._seconds = found[0], 0.0
                return found
        self._last, self._seconds = 0, 0.0
        return None

    def _files(self) -> list[Path]:
        return [path for path in self._folder.glob("weights-*") if path.is_file()]

    def _read(self, path: Path, lineages: list[str]) -> tuple[int, list[AnyArray]] | str:
        if path.stat().st_size <= _SEAL:
            return "was cut off"
        content = np.memmap(path, np.uint8, "r")
        seal = hmac.new(self._key, digestmod="sha256")
        for start in range(0, len(content) - _SEAL, _PIECE):
            seal.update(content[start : min(start + _PIECE, len(content) - _SEAL)].data)
        if not hmac.compare_digest(seal.digest(), bytes(content[-_SEAL:])):
            return "was cut off, damaged, or written by another curator"
        facts, place = _line(content, 0)
        updates = int(facts["updates"])
        if path.name != f"weights-{updates}" or updates > len(lineages) or lineages[updates - 1] != facts["lineage"]:
            return "belongs to another history of operations"
        return updates, list(_shards(content, place))


def _line(content: AnyArray, place: int) -> tuple[Any, int]:
    head = bytes(content[place : place + 4096])
    line = head[: head.index(b"\n")]
    return json.loads(line), place + len(line) + 1


def _shards(content: AnyArray, place: int) -> Iterator[AnyArray]:
    while place < len(content) - _SEAL:
        (dtype, count), place = _line(content, place)
        size = count * np.dtype(dtype).itemsize
        yield np.frombuffer(content.data, np.dtype(dtype), count, place)
        place += size
