"""What does the sample's size cost? Time per record and memory, from a million records to a thousand million.

    python -m benchmarks.scaling [--most 1000000000] [--folder DIRECTORY] [--json]

Fixed-point records of 8 features (16 bytes) are drawn, written to a file, and mapped from there. Measured for each n:
the fill, the file's check after a restart, one fused reweigh (losses, counts and their histogram; the second pass of
two), and a million draws from the reweighed law; each by the clock, and in time of all cores together, which says more
on a machine that does other work too. Memory is what the process alone holds at most while it does all that
(its anonymous pages; those of the file are the system's, which may drop them). A size for which disk or memory do not
suffice is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.numerics.randomness import RandomSource
from common.scenario import loading
from common.scenario.scenario import settled
from curator.sample.reweighing import Reweighing
from curator.startup import open_sample

SIZES = (10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8, 324_700_000, 10**9)
PLANES = (Linear(weights=(1.0,) * 8, threshold=0.0), Linear(weights=(1.0, 1.0, *(0.0,) * 6), threshold=-0.05))
DRAWS = 1_000_000
Answer = TypeVar("Answer")


class OnProgress:
    """The peak anonymous memory of this process within ``with``, in bytes; sampled ten times a second."""

    def __init__(self) -> None:
        self.most = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> OnProgress:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            facts = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self.most = max(self.most, int(facts["RssAnon"].split()[0]) << 10)
            if self._end.wait(0.1):
                return


def timed(work: Callable[[], Answer]) -> tuple[Answer, Floats]:
    """Call a function; return its result, and the seconds it took: wall-clock time, and CPU time of all cores."""
    began = np.array([time.perf_counter(), time.process_time()])
    answer = work()
    return answer, np.array([time.perf_counter(), time.process_time()]) - began


def measure(n: int, folder: Path) -> dict[str, float]:
    """Measure one size; its file is removed afterwards."""
    storage = ("curator.storage.place=disk", "curator.storage.numbers=fixed")
    numbers = ("curator.kappa=0.1", "curator.eta=0.1", "curator.rounds=100")
    chosen = settled(loading.load("ball", [f"curator.n={n}", *numbers, *storage]))
    with tempfile.TemporaryDirectory(dir=folder) as state, OnProgress() as on_progress:
        bring = partial(open_sample, chosen, Path(state), 1, lambda text: None)
        sample, fill = timed(bring)
        sample.close()
        sample, reopen = timed(bring)
        law = Reweighing.restore(sample, 0.1, 0.1)
        (_, first), (_, second) = (timed(partial(law.update, sample, HypothesisLoss(plane))) for plane in PLANES)
        source = RandomSource.seeded(1)
        sampler = law.sampler(sample)
        sampler.draws(1, source)
        _, draws = timed(partial(sampler.draws, DRAWS, source))
        sample.close()
    found: dict[str, float] = {"n": n}
    seconds = {"fill": fill / n, "reopen": reopen / n, "first reweigh": first / n, "reweigh": second / n}
    for name, (wall, busy) in {**seconds, "draw": draws / DRAWS}.items():
        found |= {f"{name} ns": 1e9 * float(wall), f"{name} core ns": 1e9 * float(busy)}
    return {**found, "anonymous MiB": on_progress.most / 2**20}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:>16.4g}"
    return f"{value:>16,}" if isinstance(value, int) else str(value)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=10**9, help="largest n")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the file is put")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as warm:
        measure(100_000, Path(warm))
    rows: list[dict[str, float | str]] = []
    for n in (size for size in SIZES if size <= given.most):
        try:
            rows.append({**measure(n, given.folder)})
        except BadScenario as refused:
            rows.append({"n": n, "refused": refused.detail})
        if not given.json:
            if len(rows) == 1:
                print("  ".join(f"{name:>16}" for name in rows[0]))
            print("  ".join(_cell(x) for x in rows[-1].values()), flush=True)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
