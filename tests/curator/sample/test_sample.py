"""One result, whatever the number of threads and shards; scores that widen, are stored and restored."""

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.core import machine
from common.core.errors import BadData, BadInput, BadScenario
from common.data.population import PopulationSpec
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import Scenario
from curator.sample import shard as shards
from curator.sample import source
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import FixedRows, Grid, SingleRows
from curator.sample.shard import AcceptanceTable
from curator.sample.source import RecordLayout, map_blocks
from curator.startup import check_room, open_sample
from tests.curator.given import cumulative_losses, losses_of, no_space, split
from tests.support import tiny
from tests.tiers import for_each

N = 5000
GRID = Grid.between(-1.0, 1.0)
ROUNDS = [
    (Linear(weights=(0.5, -1.0, 0.25), threshold=0.1), "zero-one"),
    (Stump(feature=1, threshold=0.0, sign=1), "zero-one"),
    (Linear(weights=(-1.0, 0.1, 2.0), threshold=0.0), "hinge"),
    (Linear(weights=(1.0, 1.0, 1.0), threshold=0.2), "zero-one"),
]


def people(n=N):
    generator = np.random.default_rng(0)
    features = generator.uniform(-1.0, 1.0, (n, 3)).astype(np.float32)
    return Records(features, generator.choice(np.array([-1, 1], dtype=np.int8), n))


def held(kind, cuts, threads):
    rows = SingleRows if kind == "single" else partial(FixedRows.from_records, grid=GRID)
    return split(people(), *cuts, rows=rows, threads=threads)


def run(sample):
    """Return all that a run computes: scores, the law, draws, at every round."""
    weights, seen = Reweighing(N, 0.1, 0.4), []
    for hypothesis, loss in ROUNDS:
        weights.update(sample, HypothesisLoss(hypothesis, loss))
        sampler = weights.sampler(sample)
        drawn = sampler.draws(700, RandomSource.seeded(1))
        seen += [cumulative_losses(sample), weights.density().cut, drawn.features, drawn.labels]
        seen += [sampler.indices(700, RandomSource.seeded(1))]
    return seen


@for_each("kind", ["single", "fixed"])
@for_each(("cuts", "threads"), [((), 1), ((), 3), ((1,), 2), ((7, 8, 3000), 2)])
def test_threads_and_shards_change_no_bit(kind, cuts, threads, monkeypatch):
    wanted = run(held(kind, (), 1))
    monkeypatch.setattr(shards, "BLOCK", 101)
    monkeypatch.setattr(shards, "_SHARE", 777)
    if len(cuts) == 3:
        monkeypatch.setattr(shards, "_DENSE", 10)  # scores are counted by sorting, not in tables
    for one, other in zip(wanted, run(held(kind, cuts, threads)), strict=True):
        np.testing.assert_array_equal(one, other)


def zeros(n=20, *cuts):
    """Return a sample of records that no hypothesis of these tests is wrong about, in shards, with scores of 0."""
    return split(losses_of(np.zeros((1, n), dtype=np.uint8)), *cuts)


@for_each(("most", "before", "wider"), [(255, np.uint8, np.uint16), (65535, np.uint16, np.uint32)])
def test_scores_widen_before_they_overflow(most, before, wider):
    sample = LocalSample.from_records(losses_of(np.ones((1, 20), dtype=np.uint8)))
    sample.restore([np.full(20, most, dtype=before)], most)
    histogram = sample.reweigh(HypothesisLoss(Constant(label=-1), "zero-one"), 1, most + 1)
    assert cumulative_losses(sample).dtype == wider
    assert histogram.levels.tolist() == [most + 1]


@for_each(
    ("stored", "says"),
    [
        ([np.zeros(19, dtype=np.uint8)], "shape"), ([np.zeros(20, dtype=np.int32)], "unsigned counts"),
        ([np.zeros(20)], "unsigned counts"), ([np.full(20, 4, dtype=np.uint8)], "outside"),
    ],
)  # fmt: skip
def test_impossible_stored_scores_are_refused(stored, says):
    sample = zeros()
    with pytest.raises(BadData, match=says):
        Reweighing.restore(sample, 1.0, 0.1, [HypothesisLoss(Constant(label=1))] * 3, stored)
    assert not cumulative_losses(sample).any()
    with pytest.raises(ValueError, match="read-only"):
        next(iter(sample.cumulative_losses()))[0] = 1


@for_each("cuts", [[], [1], [700, 1300]])
def test_each_point_of_the_pile_lies_on_one_record_and_each_record_on_as_many_as_it_is_high(cuts):
    """Records are as high as their score says, one after the other, through all shards."""
    n, heights = 1500, np.array([3, 1, 2])
    sample = zeros(n, *cuts)
    scores = np.random.default_rng(6).integers(0, 4, n).astype(np.uint8)  # above the last level: as high as that
    sample.restore(np.split(scores, cuts), 3)
    table = AcceptanceTable(0, np.full(3, 2**64 - 1, dtype=np.uint64), heights)
    wanted = np.repeat(np.arange(n), heights[np.minimum(scores, 2)])
    sums = sample.bucket_sums(table)
    assert sums[-1] == len(wanted)
    points = np.random.default_rng(7).permutation(len(wanted))
    found = sample.find(points, np.zeros(len(wanted), dtype=np.uint64), sums, table, False)
    np.testing.assert_array_equal(found.places, np.arange(len(wanted)))
    np.testing.assert_array_equal(found.rows, wanted[points])


def test_scores_of_another_law_are_not_gone_on_with():
    # Tables are as long as the law says that scores are; one beyond them would be written somewhere else.
    sample = held("single", (9,), 1)
    run(sample)
    with pytest.raises(ValueError, match="restore the sample before another law begins"):
        Reweighing(N, 0.1, 0.4).update(sample, HypothesisLoss(*ROUNDS[0]))
    Reweighing.restore(sample, 0.1, 0.4).update(sample, HypothesisLoss(*ROUNDS[0]))
    assert cumulative_losses(sample).max() == 1


KINDS = [{"numbers": n, "place": p} for n in ("single", "fixed") for p in ("memory", "disk")]


def scenario(**storage: Any) -> Scenario:
    return tiny("curator.n=3001", *(f"curator.storage.{key}={value}" for key, value in storage.items()))


def contents(chosen: Scenario, folder: Path, seed: int = 3, told: list[str] | None = None) -> Records:
    with closing(open_sample(chosen, folder, seed, [].append if told is None else told.append)) as sample:
        return Records.joined(list(sample.blocks(1000)))


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordLayout, "block", 100)


@pytest.mark.usefixtures("_small_blocks")
@for_each("kind", KINDS)
def test_the_records_are_those_of_the_people_wherever_they_are_kept(tmp_path, kind):
    chosen = scenario(**kind)
    expected = chosen.source.distribution.draw(3, np.arange(3001))
    found = contents(chosen, tmp_path)
    np.testing.assert_array_equal(found.labels, expected.labels)
    if kind["numbers"] == "single":
        np.testing.assert_array_equal(found.features, expected.features)
    else:
        step = Grid.for_population(chosen.source).step
        np.testing.assert_allclose(found.features, expected.features, rtol=0, atol=1.001 * step)


@for_each("threads", [1, 3])
def test_blocks_come_in_order_whatever_the_threads(threads, monkeypatch):
    monkeypatch.setattr(source, "PAUSE", -1.0)
    told: list[str] = []
    assert list(map_blocks(lambda a, b: (a, b), 10, 4, threads, "done", told.append)) == [(0, 4), (4, 8), (8, 10)]
    assert told == ["4 of 10 done", "8 of 10 done", "10 of 10 done"]


@pytest.mark.usefixtures("_small_blocks")
@for_each("numbers", ["single", "fixed"])
def test_a_file_that_is_there_whole_is_used_again(tmp_path, numbers):
    chosen = scenario(numbers=numbers, place="disk")
    first, file = contents(chosen, tmp_path), tmp_path / "rows" / "rows-0-3001"
    before = file.stat()
    assert before.st_mode & 0o077 == 0
    np.testing.assert_array_equal(first.features, contents(chosen, tmp_path).features)
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    with closing(open_sample(chosen, tmp_path, 3, print)), pytest.raises(BadInput, match="in use by another process"):
        open_sample(chosen, tmp_path, 3, print)
    other = contents(chosen, tmp_path, seed=4)  # a file of other people is not used
    np.testing.assert_array_equal(other.labels, chosen.source.distribution.draw(4, np.arange(3001)).labels)


def flip_a_bit(file: Path, _: Path) -> None:
    content = bytearray(file.read_bytes())
    content[20_000] ^= 4
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path, Path], Any]] = {
    "one byte": flip_a_bit, "cut off": lambda file, _: os.truncate(file, 30_000),
    "no checksums": lambda _, sidecar: sidecar.unlink(),
    "checksums cut off": lambda _, sidecar: os.truncate(sidecar, 99),
    "a list of nothing": lambda _, sidecar: sidecar.write_text("[]"), "gone": lambda file, _: file.unlink(),
    "nested too deep": lambda _, sidecar: sidecar.write_text("[" * 100_000),
    "half-written": lambda file, sidecar: (sidecar.unlink(), file.rename(file.with_name(file.name + ".part"))),
}  # fmt: skip


@pytest.mark.usefixtures("_small_blocks")
@for_each("damage", DAMAGES)
def test_a_file_that_is_not_beyond_doubt_is_written_again(tmp_path, damage):
    chosen, told = scenario(numbers="fixed", place="disk"), list[str]()
    first, file = contents(chosen, tmp_path), tmp_path / "rows" / "rows-0-3001"
    whole = file.read_bytes()
    DAMAGES[damage](file, file.with_name(file.name + ".json"))
    again = contents(chosen, tmp_path, told=told)
    assert any("does not hold what was written" in line for line in told) == (damage == "one byte")
    assert file.read_bytes() == whole
    np.testing.assert_array_equal(first.features, again.features)


def test_a_fill_that_fails_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(OSError, match="no space left"):
        contents(scenario(place="disk"), tmp_path)
    monkeypatch.undo()
    assert not list((tmp_path / "rows").glob("rows-*"))
    contents(scenario(place="disk"), tmp_path)  # and nothing left it locked


# Capacity -----------------------------------------------------------------------------------------------------------


@for_each(
    ("storage", "rounds", "per_person", "remedy"),
    [
        ({}, 3, 33 + 1, "place: disk.*numbers: fixed.*curator.n"),
        ({}, 300, 33 + 3, "place: disk"),
        ({}, 70_000, 33 + 6, "place: disk"),
        ({"numbers": "fixed"}, 3, 16 + 1, "place: disk"),
        ({"place": "disk"}, 3, 1, "take fewer people"),
        ({"place": "disk", "workers": 2}, 3, 1 + 2, "take fewer people"),
    ],
)
def test_too_little_memory_is_refused_before_any_work(tmp_path, monkeypatch, storage, rounds, per_person, remedy):
    n = 4_000_000_000
    chosen = scenario(**storage)
    chosen = chosen.model_copy(update={"curator": chosen.curator.model_copy(update={"n": n, "rounds": rounds})})
    enough = n * per_person + machine.SPARE
    if workers := storage.get("workers"):
        enough += source.STORE + workers * source.PROCESS
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(machine, "available_disk", lambda folder: 1 << 60)
    monkeypatch.setattr(machine, "available_memory", lambda: enough)
    check_room(chosen, tmp_path)
    monkeypatch.setattr(machine, "available_memory", lambda: enough - 1)
    with pytest.raises(BadScenario, match=remedy):
        check_room(chosen, tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_remedy_is_told_that_would_be_refused(tmp_path, monkeypatch):
    """Parities have features of 0 and 1, which are no fixed-point numbers."""
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 20)
    with pytest.raises(BadScenario, match=r"4,446 people of 65 bytes needs .*place: disk\), or take fewer people"):
        check_room(resolve(load("parity")), tmp_path)


def test_a_table_needs_room_as_it_is_read_and_in_its_random_order(tmp_path, monkeypatch):
    column = {"kind": "number", "column": "x", "low": 0, "high": 1}
    label = {"column": "label", "positive": ["yes"], "negative": ["no"]}
    table = PopulationSpec.model_validate({"table": {"files": ["people.csv"], "label": label, "features": [column]}})
    chosen = scenario().model_copy(update={"source": table})
    enough = 3001 * (5 + 2 * 5 + 1) + machine.SPARE
    monkeypatch.setattr(machine, "available_memory", lambda: enough)
    source.Source(chosen, 3, tmp_path, tmp_path).check(lambda *_: 0)
    monkeypatch.setattr(machine, "available_memory", lambda: enough - 1)
    with pytest.raises(BadScenario, match="a sample of 3,001 people of 5 bytes needs"):
        source.Source(chosen, 3, tmp_path, tmp_path).check(lambda *_: 0)


def test_too_small_a_disk_is_refused_before_any_work(tmp_path, monkeypatch):
    chosen = scenario(place="disk", numbers="fixed")
    needed = 3001 * 16 + 2 * 3001 + machine.SPARE
    monkeypatch.setattr(machine, "available_disk", lambda folder: needed - 1)
    with pytest.raises(BadScenario, match=r"needs .* of disk at .*rows, .* are available: take fewer people"):
        check_room(chosen, tmp_path)
    monkeypatch.setattr(machine, "available_disk", lambda folder: machine.SPARE - 1)
    with pytest.raises(BadScenario, match=r"are available: make room there$"):  # fewer people would not fit either
        check_room(chosen, tmp_path)
    monkeypatch.setattr(machine, "available_disk", lambda folder: needed)
    check_room(chosen, tmp_path)
    contents(chosen, tmp_path)
    monkeypatch.setattr(machine, "available_disk", lambda folder: 2 * 3001 + machine.SPARE)
    check_room(chosen, tmp_path)  # the rows are there already


def test_workers_without_ray_are_refused_in_a_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "curator.sample.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(BadScenario, match=r"workers needs Ray: install .*workers: 0"):
        importlib.import_module("curator.sample.cluster")
