"""Optional files beside a curator's ledger: stored weights, which speed up a restart, and the owner's file.

A restarted curator need not compute stored weights again. The ledger has the whole history, and every reweigh is a
deterministic function of a public hypothesis. So weights are written to a file only now and then, in a separate thread,
and such a file is used only if it is authenticated.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from common.core.arrays import AnyArray
from common.core.durable import write_whole
from common.core.folder import read_own
from common.core.threads import Worker
from common.privacy.accountants import grouped
from common.privacy.events import Event
from common.scenario.scenario import ResolvedScenario
from curator.sample.reweighing import Reweighing

log = logging.getLogger("tandem")

EVERY = 16  # maximum number of reweighs that a restart computes again
SECONDS = 3.0  # maximum time of reweighs that a restart computes again, apart from one further reweigh
_SEAL = 32  # bytes


class Checkpoints:
    """Files ``weights-T``: HMAC-SHA256 over the rest, a line of JSON, and the scores of each shard in NumPy's format.

    The key is the curator's own, and the line names the history of operations that led to the scores. So a file that is
    damaged, truncated, renamed, or from another curator or another history is detected.
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
        """Wait until the scores are no longer being read; they may change from then on."""
        writing, self._writing = self._writing, None
        if writing is not None and (error := writing.exception()) is not None:
            # The error's text might contain records; the weights are computed again from the ledger.
            log.warning("the weights could not be stored, and were not: %s", type(error).__name__)

    def offer(
        self, updates: int, seconds: float, lineage: str, cumulative_losses: Callable[[], Iterable[AnyArray]]
    ) -> None:
        """Start to write the scores, if it is time for that; they must not change until :meth:`settle`."""
        self._seconds += seconds
        if updates - self._last < EVERY and self._seconds < SECONDS:
            return
        self.settle()
        self._last, self._seconds = updates, 0.0
        self._writing = self.worker.submit(self._write, updates, lineage, cumulative_losses)

    def _write(self, updates: int, lineage: str, cumulative_losses: Callable[[], Iterable[AnyArray]]) -> None:
        part = self._folder / "weights.part"
        try:
            with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as file:
                file.write(bytes(_SEAL) + json.dumps([updates, lineage]).encode() + b"\n")
                for shard in cumulative_losses():
                    np.save(file, shard, allow_pickle=False)
                seal = self._seal(file)
                file.seek(0)
                file.write(seal)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._folder / f"weights-{updates}")
        except OSError as error:
            log.warning("the weights after reweigh %d could not be stored, and were not: %s", updates, error)
            return
        for path in self._files():
            if path.name != f"weights-{updates}":
                path.unlink(missing_ok=True)

    def load(self, lineages: list[str]) -> tuple[int, list[AnyArray]] | None:
        """Return the newest stored weights of this history: their number of reweighs, and each shard's scores.

        Args:
            lineages: For each finished reweigh, in order, the digest of all operations up to it.
        """
        self.settle()
        for path in sorted(self._files(), key=lambda path: path.stat().st_mtime_ns, reverse=True):
            stored = self._read(path, lineages)
            if isinstance(stored, str):
                log.warning("%s is not used, it %s; the weights are computed again from the ledger", path, stored)
            else:
                self._last, self._seconds = stored[0], 0.0
                return stored
        self._last, self._seconds = 0, 0.0
        return None

    def _files(self) -> list[Path]:
        return [path for path in self._folder.glob("weights-*") if path.is_file()]

    def _read(self, path: Path, lineages: list[str]) -> tuple[int, list[AnyArray]] | str:
        with path.open("rb") as file:
            if not hmac.compare_digest(file.read(_SEAL), self._seal(file)):
                return "was cut off, damaged, or written by another curator"
            file.seek(_SEAL)
            updates, lineage = json.loads(file.readline())
            if path.name != f"weights-{updates}" or updates > len(lineages) or lineages[updates - 1] != lineage:
                return "belongs to another history of operations"
            scores = []
            while file.peek(1):
                scores.append(np.load(file, allow_pickle=False))
            return updates, scores

    def _seal(self, file: BufferedRandom | BufferedReader) -> bytes:
        file.seek(_SEAL)
        return hashlib.file_digest(file, lambda: hmac.new(self._key, digestmod="sha256")).digest()


if TYPE_CHECKING:
    from common.data.examining import Notes

OWNERS, TIMES = "owner.json", "times.jsonl"
VERSION = 1
BINS = 40  # maximum number of bars in the histogram of weights


class OwnersFile:
    """Two files in a state directory that only the console uses.

    One has the time of each operation, one line per operation. The other has what the owner may know of the sample and
    is rewritten after each reweigh.
    """

    def __init__(self, folder: Path, scenario: ResolvedScenario, planned: Sequence[Event], notes: Notes | None) -> None:
        section = scenario.curator
        self._path, self._times = folder / OWNERS, folder / TIMES
        self._updates = -1
        table = scenario.source.table
        constants = {
            "version": VERSION,
            "scenario": scenario.name,
            "people": section.n,
            "simulated": scenario.people == "simulated",
            "epsilon": section.epsilon,
            "delta": section.delta,
            "rounds": section.rounds,
            "planned": [[event.wire(), count] for event, count in grouped(planned)],
            "read": None if notes is None or table is None else {"rows": notes.rows, **notes.document()},
            "bounds": _bounds(scenario),
        }
        self._constant_json = json.dumps(constants)[:-1]

    def keep(self, reweighing: Reweighing, operation: str | None = None) -> None:
        try:
            if operation is not None:
                with open(self._times, "a", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
                    # The newline comes first, so that a line that a crash cut off does not damage the next.
                    file.write("\n" + json.dumps([operation, round(time.time(), 1)]))
            if reweighing.updates != self._updates:
                document = f'{self._constant_json}, "weights": {json.dumps(weights_of(reweighing))}}}'
                write_whole(self._path, document.encode(), mode=0o600)
                self._updates = reweighing.updates
        except OSError as error:
            log.warning("what the owner's console shows could not be written: %s", error)


def operation_times(folder: Path) -> dict[str, float]:
    """Return the time of each operation, in seconds since 1970; lines that cannot be read are left out."""
    times = {}
    with suppress(OSError):
        for line in read_own(folder / TIMES).splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                number, when = json.loads(line)
                times[str(number)] = float(when)
    return times


def weights_of(reweighing: Reweighing) -> dict[str, Any]:
    """Return the distribution of the weights: over all records together, and by score.

    A score is a sum of losses over all reweighs. A bin has its lowest and highest score as a mean loss in [0, 1], the
    number of records with such a score, and their share of the total weight. Weights are in units of the mean weight.
    """
    density, n = reweighing.density(), reweighing.n
    levels, people = density.histogram.levels, density.histogram.people
    relative = density.relative(levels)
    share = people * relative / float(np.sum(people * relative))
    scale = max(1.0, reweighing.updates * reweighing.eta / density.eta)
    kappa = reweighing.kappa
    return {
        "updates": reweighing.updates,
        "kappa": kappa,
        "eta": reweighing.eta,
        "mean_score": float(np.average(levels, weights=people)) / scale,
        "cap": None if kappa is None else 1.0 / kappa,
        "largest": float(np.max(share / people)) * n,
        "at_cap": 0 if kappa is None else int(np.sum(people[levels >= density.cut])),
        "density": density.acceptance * len(density) / n,
        "bins": [
            [*(levels[bar[[0, -1]]] / scale).tolist(), int(people[bar].sum()), float(share[bar].sum())]
            for bar in _bars(levels)
        ],
    }


def _bars(levels: Any) -> list[Any]:
    low, high = int(levels[0]), int(levels[-1])
    width = max(1, -(-(high - low + 1) // BINS))
    bar = (levels - low) // width
    return [np.flatnonzero(bar == number) for number in np.unique(bar)]


def _bounds(scenario: ResolvedScenario) -> dict[str, list[float]]:
    """Return the public bounds of a table's numbers by column, the narrowest if a column has several."""
    bounds: dict[str, list[float]] = {}
    for feature in () if scenario.source.table is None else scenario.source.table.features:
        if feature.kind == "number":
            low, high = bounds.get(feature.column, [feature.low, feature.high])
            bounds[feature.column] = [max(low, feature.low), min(high, feature.high)]
    return bounds
