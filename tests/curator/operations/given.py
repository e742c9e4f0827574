"""Tiny samples, what an operation releases of them, and whether releases have the law that they should have."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chisquare

from benchmarks.audits.subjects import Office, office
from common.local.mechanisms.mechanism import Laplace
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Operation
from common.scenario.scenario import ResolvedScenario
from curator.curator import Curator
from curator.engine import Workspace
from curator.sample.reweighing import Reweighing
from tests.curator.given import split

FAILURE = 1e-6
"""Probability that a right law is called wrong."""


@contextmanager
def offices(folder: Path) -> Iterator[Callable[..., Office]]:
    """Give a way to open curators of a scenario and a sample, each in a folder of its own."""
    with ExitStack() as opened:
        number = count()

        def opening(chosen: ResolvedScenario, sample: Records, **more: Any) -> Office:
            kind, place = partial(Curator, **more), folder / str(next(number))
            return opened.enter_context(office(kind, chosen, sample, place, RandomSource.seeded(3)))

        yield opening


def charged(desk: Office) -> list[Any]:
    return [charge.event for charge in desk._curator._ledger]


def people(features: Any, labels: Any = None) -> Records:
    """Return records of 0/1 features, shape (n, d); labels are 0/1, too, and 1 if not given."""
    rows = np.array(features, dtype=np.uint8)
    signs = np.ones(len(rows)) if labels is None else 2.0 * np.array(labels) - 1.0
    return Records(rows, signs.astype(np.int8))


def numbers(values: Iterable[int], bits: int) -> Records:
    """Return records whose features are the bits of these values, most significant first."""
    held = np.array(list(values), dtype=np.int64)
    return people(held[:, None] >> np.arange(bits - 1, -1, -1) & 1)


def workspace(records: Records, cut: int = 0) -> Workspace:
    """Return a curator's workspace with this sample, in two shards if it is cut."""
    sample = split(records, *([cut] if cut else []))
    return Workspace(sample, Reweighing(len(records), None, 1.0), None)


def release(operation: Operation[Any], records: Records, seed: int = 0, cut: int = 0) -> dict[str, Any]:
    """Carry out an operation; return the JSON form of its result, as whoever asked reads it."""
    found = workspace(records, cut).perform(operation, RandomSource.seeded(seed, "release"))
    wire: dict[str, Any] = found.wire()
    assert operation.read(wire) == found
    return wire


def geometric(noise: Laplace, most: int) -> dict[int, float]:
    """Return the law of two-sided geometric noise up to ``most`` either way."""
    q = noise.ratio
    return {z: (1.0 - q) / (1.0 + q) * q ** abs(z) for z in range(-most, most + 1)}


def assert_law(found: Iterable[Hashable], law: Mapping[Any, float]) -> None:
    """Assert that independent outcomes have a law, by the chi-squared test at :data:`FAILURE`.

    Outcomes that are expected fewer than five times count as one.
    """
    seen = Counter(found)
    runs = seen.total()
    common = [outcome for outcome in law if runs * law[outcome] >= 5.0]
    chances, counts = np.array([law[outcome] for outcome in common]), np.array([seen[outcome] for outcome in common])
    if 1.0 - chances.sum() > 5.0 / runs:
        counts, chances = np.append(counts, runs - counts.sum()), np.append(chances, 1.0 - chances.sum())
    else:
        assert runs - counts.sum() < 40, "outcomes that should hardly ever come"
        runs = counts.sum()
    assert chisquare(counts, runs * chances / chances.sum()).pvalue > FAILURE
