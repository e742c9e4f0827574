"""A sample over workers of a real Ray cluster on this machine: the same results as in one process, whoever dies."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadData, BadScenario, PeerUnavailable
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.numerics.randomness import RandomSource
from curator.sample.reweighing import Reweighing
from curator.sample.source import Source
from tests.support import Bench, tiny

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install tandem-hybrid[ray]"),
    pytest.mark.xdist_group("ray"),
]
PLANES = [Linear(weights=tuple(np.eye(8)[k]), threshold=0.05 * k) for k in range(4)]
PLACE = "place: disk, numbers: fixed"


def parties(folder: Path, workers: int) -> Bench:
    return Bench(folder, tiny("curator.n=20001", f"curator.storage={{workers: {workers}, {PLACE}}}"))


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Bench]]:
    """Parties whose sample is in this process, and ones whose sample is spread over two workers."""
    with parties(tmp_path_factory.mktemp("alone"), 0) as alone, parties(tmp_path_factory.mktemp("spread"), 2) as spread:
        yield [alone, spread]


@pytest.fixture
def samples(benches: list[Bench]) -> list[Any]:
    return [bench.curator._sample for bench in benches]


def releases(bench: Bench) -> list[Any]:
    entries = [json.loads(line)["body"] for line in bench.finished().transcript.splitlines()]
    return [entry["release"]["message"]["result"] for entry in entries if "release" in entry]


def test_a_run_over_workers_is_the_same_run_also_when_one_is_killed(benches, samples):
    """First of all, since the others put the scores to what they like."""
    (alone, spread), (_, two) = benches, samples
    before = two.processes()
    spread.meanwhile(lambda: os.kill(before[1], signal.SIGKILL))
    assert {**spread.run(), "seconds": 0} == {**alone.run(), "seconds": 0}
    assert releases(spread) == releases(alone)
    assert len(releases(alone)) >= 3
    after = two.processes()
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def reweighed(sample: Any, kappa: float, eta: float, kill: int | None = None) -> list[object]:
    """Reweigh four times, drawing after each; a worker is killed on the way. Return all that comes out."""
    law = Reweighing.restore(sample, kappa, eta)
    found: list[object] = []
    for k, plane in enumerate(PLANES):
        if kill == k:
            os.kill(sample.processes()[1], signal.SIGKILL)
        law.update(sample, HypothesisLoss(plane, "zero-one" if k < 2 else "hinge"))
        sampler, source = law.sampler(sample), RandomSource.seeded(k)
        found.append(sampler.indices(3000, source).tolist())
        records = sampler.draws(3000, source)
        found.append(np.concatenate([weights for _, weights in sampler.weighted()]).tolist())
        found.extend([records.features.tolist(), records.labels.tolist(), law.density().acceptance])
    return [*found, np.concatenate(list(sample.cumulative_losses())).tolist()]


@pytest.mark.parametrize(("kappa", "eta"), [(0.2, 0.1), (0.01, 3.0)], ids=["by rejection", "from a pile"])
def test_a_killed_worker_changes_nothing_of_what_comes_out(samples, monkeypatch, kappa, eta):
    (one, two), told = samples, list[str]()
    monkeypatch.setattr(two, "_on_progress", told.append)
    assert (two.sizes, two.dimension, two.dtype) == ((10_000, 10_001), one.dimension, one.dtype)
    assert reweighed(two, kappa, eta, kill=2) == reweighed(one, kappa, eta)
    assert [line for line in told if "its successor brings the same 10,001 people and repeats" in line]


def test_stored_scores_are_restored_also_in_a_successor_and_refused_as_a_shard_does(samples):
    one, two = samples
    cumulative_losses = [(np.arange(size) % 3).astype(np.uint8) for size in two.sizes]
    histogram = two.restore(cumulative_losses, 5)
    os.kill(two.processes()[0], signal.SIGKILL)
    np.testing.assert_array_equal(np.concatenate(list(two.cumulative_losses())), np.concatenate(cumulative_losses))
    np.testing.assert_array_equal(histogram.people, one.restore([np.concatenate(cumulative_losses)], 5).people)
    with pytest.raises(BadData, match="stored weights lie outside"):
        two.restore([np.full(size, 9, dtype=np.uint8) for size in two.sizes], 5)


def test_a_worker_that_dies_again_and_again_is_given_up(samples, monkeypatch):
    two = samples[1]
    monkeypatch.setattr(two, "_replaced", lambda shard, lost: lost)
    os.kill(two.processes()[0], signal.SIGKILL)
    with pytest.raises(PeerUnavailable, match="worker 0 of the sample died 3 times in a row"):
        two.restore(None, 0)


def test_workers_that_cannot_hold_their_people_are_told_of_in_a_line(tmp_path):
    from curator.sample import cluster

    source = Source(tiny("curator.n=2001", f"curator.storage={{workers: 2, {PLACE}}}"), 3, tmp_path / "gone", None)
    with pytest.raises(PeerUnavailable, match=r"^a worker of the sample cannot start: FileNotFoundError: .*$"):
        cluster.open_cluster(source, source.population(), print)


def test_a_cluster_that_nobody_serves_is_refused_at_once(monkeypatch):
    from curator.sample import cluster

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(BadScenario, match=r"the Ray cluster cannot be used .*: see RAY_ADDRESS"):
            cluster._connect(2, 1000)
