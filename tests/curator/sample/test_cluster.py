"""A sample over workers of a real Ray cluster on this machine: the same results as in one process, whoever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.errors import BadData
from common.hypotheses.linear import Linear
from common.randomness import RandomSource
from common.records import Records
from curator.reweighing import Reweighing
from curator.sample.base import Sample
from curator.sample.opening import open_sample
from tests.support import tiny

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install tandem-hybrid[ray]"),
    pytest.mark.xdist_group("ray"),
]
PLANES = [Linear(weights=tuple(np.eye(8)[k]), threshold=0.05 * k) for k in range(4)]
PLACE = "place: disk, numbers: fixed"


def opened(folder: Path, workers: int, told: list[str]) -> Sample:
    chosen = tiny("curator.n=20001", f"curator.storage={{workers: {workers}, {PLACE}}}")
    return open_sample(chosen, folder, 5, told.append)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    sample = opened(tmp_path_factory.mktemp("alone"), 0, [])
    yield sample
    sample.close()


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory, told: list[str]) -> Iterator[Sample]:
    sample = opened(tmp_path_factory.mktemp("spread"), 2, told)
    yield sample
    sample.close()


def reweighed(sample: Any, kappa: float, eta: float, kill: int | None = None) -> list[object]:
    """Reweigh four times, drawing after each; a worker is killed on the way. Return all that comes out."""
    law = Reweighing.restore(sample, kappa, eta)
    found: list[object] = []
    for k, plane in enumerate(PLANES):
        if kill == k:
            os.kill(sample.processes()[1], signal.SIGKILL)
        law.update(sample, plane, "zero-one" if k < 2 else "hinge")
        sampler, source = law.sampler(sample), RandomSource.seeded(k)
        found.append(sampler.indices(3000, source).tolist())
        records = sampler.draws(3000, source)
        found.extend([records.features.tolist(), records.labels.tolist(), law.density().acceptance])
    return [*found, np.concatenate(list(sample.scores())).tolist()]


def test_the_cluster_holds_the_same_people_in_the_same_order(alone, spread):
    assert spread.sizes == (10_000, 10_001)
    assert (len(spread), spread.dimension, spread.dtype) == (len(alone), alone.dimension, alone.dtype)
    one, other = next(alone.blocks(30_000)), Records.joined(list(spread.blocks(4000)))
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.labels, other.labels)


@pytest.mark.parametrize("eta", [0.1, 3.0], ids=["by rejection", "from a pile"])
def test_a_killed_worker_changes_nothing_of_what_comes_out(alone, spread, told, eta):
    told.clear()
    assert reweighed(spread, 0.2 if eta < 1 else 0.01, eta, kill=2) == reweighed(alone, 0.2 if eta < 1 else 0.01, eta)
    assert [line for line in told if "its successor brings the same 10,001 people and repeats" in line]


def test_stored_scores_are_restored_also_in_a_successor(alone, spread):
    scores = [(np.arange(size) % 3).astype(np.uint8) for size in spread.sizes]
    census = spread.restore(scores, 5)
    os.kill(spread.processes()[0], signal.SIGKILL)
    np.testing.assert_array_equal(np.concatenate(list(spread.scores())), np.concatenate(scores))
    np.testing.assert_array_equal(census.people, alone.restore([np.concatenate(scores)], 5).people)


def test_what_a_shard_refuses_is_refused_here(spread):
    with pytest.raises(BadData, match="stored weights lie outside"):
        spread.restore([np.full(size, 9, dtype=np.uint8) for size in spread.sizes], 5)
