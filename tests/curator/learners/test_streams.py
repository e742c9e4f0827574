"""A stream of questions: its law is that of one whole sequence, and a restart changes nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from common.numerics.randomness import RandomSource
from common.privacy.theorems.votes import Thresholds
from curator.learners import teachers
from curator.learners.teachers import BOTTOM, UNANSWERED, LabelClasses, StreamOfAnswers, release_until_cutoff
from curator.mechanisms.counts import geometric_noise
from tests.curator.operations.given import assert_law
from tests.tiers import for_each

LAW = Thresholds(cutoff=2, level=2, of_threshold=0.8, of_query=0.6)
REACH = 60
"""Noise beyond this hardly ever comes, with this law."""


def opened(source: RandomSource, law: Thresholds = LAW, bottoms: int = 0) -> StreamOfAnswers:
    return StreamOfAnswers([], LabelClasses(), 1, law, bottoms, source)


def asked(stable: list[int], source: RandomSource, *, restarts: bool = False, law: Thresholds = LAW) -> list[int]:
    """Ask one question after the other, of values 0, 1, 0, ...; start again before each, if that is wanted."""
    stream, found = opened(source, law), []
    steps: list[tuple[str, bool]] = []
    for number, distance in enumerate(stable):
        if restarts:
            stream = opened(source, law)
            for lineage, bottom in steps:
                stream.advance(lineage, bottom=bottom)
        found.append(stream.judge(number % 2, distance, str(number)))
        steps.append((str(number), found[-1] == BOTTOM))
        stream.advance(str(number), bottom=found[-1] == BOTTOM)
    return found


@for_each("seed", range(40))
def test_with_the_noise_of_a_sequence_the_stream_gives_its_answers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise, the same order, the same answers, up to the last bottom and behind it."""
    stable = np.random.default_rng(seed).integers(0, 12, 30)
    noise: dict[float, Iterator[Any]] = {}

    def recorded(count: int, epsilon: float, source: RandomSource) -> Any:
        drawn = np.random.default_rng([seed, count]).integers(-4, 5, count)
        noise[epsilon] = iter(drawn)
        return drawn

    monkeypatch.setattr(teachers, "geometric_noise", recorded)
    law = LAW._replace(cutoff=5)
    batch = release_until_cutoff(np.arange(30) % 2, stable, law, RandomSource.seeded(seed))

    def again(count: int, epsilon: float, source: RandomSource) -> Any:
        if count > 1:  # all thresholds at the opening, of which the first is used
            return np.array([next(noise[epsilon])] * count)
        return np.array([next(noise[epsilon], 0)])

    monkeypatch.setattr(teachers, "geometric_noise", again)
    found = asked(stable.tolist(), RandomSource.seeded(seed), law=law)
    assert found == batch.tolist()
    assert (found.count(BOTTOM) == 5) == (UNANSWERED in found) or found[-1] == BOTTOM


def law_of(stable: tuple[int, ...], law: Thresholds) -> dict[tuple[int, ...], float]:
    """Return the exact law of a sequence's answers, 1 for "passes": a fresh threshold after each bottom."""
    z = np.arange(-REACH, REACH + 1)
    of_threshold, of_query = (np.exp(-e * np.abs(z)) for e in (law.of_threshold, law.of_query))
    of_threshold, above = of_threshold / of_threshold.sum(), np.cumsum(of_query / of_query.sum())
    below = [above[np.clip(law.level + z - d + REACH, 0, 2 * REACH)] for d in stable]
    found = {}
    for said in product((0, 1), repeat=len(stable)):
        chance, threshold, bottoms = 1.0, of_threshold, 0
        for place, passes in enumerate(said):
            if bottoms == law.cutoff:
                chance = 0.0 if passes else chance
                continue
            threshold = threshold * (1.0 - below[place] if passes else below[place])
            if not passes:
                chance, threshold, bottoms = chance * threshold.sum(), of_threshold, bottoms + 1
        found[said] = float(chance * (threshold.sum() if bottoms < law.cutoff else 1.0))
    return found


@pytest.mark.slow
def test_the_law_of_a_stream_is_that_of_the_sparse_vector() -> None:
    """And so is its law across restarts, which repeat every answer (see below)."""
    stable = (3, 1, 4, 2)
    exact = law_of(stable, LAW)
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-9)
    values, distances = np.zeros(4, dtype=np.int64), np.array(stable)
    ways: tuple[Callable[[RandomSource], Any], ...] = (
        lambda source: asked(list(stable), source),
        lambda source: release_until_cutoff(values, distances, LAW, source),
    )
    for number, way in enumerate(ways):
        runs = (way(RandomSource.seeded(seed, number)) for seed in range(1500))
        assert_law((tuple(int(answer >= 0) for answer in run) for run in runs), exact)


def test_a_restart_repeats_every_answer_bit_for_bit() -> None:
    for seed in range(60):
        stable = np.random.default_rng(seed).integers(0, 7, 12).tolist()
        source = RandomSource.seeded(seed)
        assert asked(stable, source, restarts=True) == asked(stable, source)


def test_noise_is_the_questions_own_and_that_of_what_came_before_it() -> None:
    """Another history, as after an old ledger was put back, has other noise; the same one has the same."""
    source = RandomSource.seeded(5)
    stream = opened(source)
    tried = [[stream.judge(1, 3, f"{word}{n}") for n in range(200)] for word in ("a", "a", "b")]
    assert tried[0] == tried[1] != tried[2]
    assert {1, BOTTOM} <= set(tried[0])
    thresholds = set()
    for lineage in map(str, range(50)):
        other = opened(source)
        other.advance(lineage, bottom=True)
        thresholds.add(other._threshold)
    assert len(thresholds) > 3


def test_it_goes_on_with_the_threshold_with_which_the_sequence_ended() -> None:
    law = LAW._replace(cutoff=3)
    for seed in range(30):
        source, zeros = RandomSource.seeded(seed), np.zeros(40, dtype=np.int64)
        drawn = geometric_noise(3, law.of_threshold, source.derive("thresholds"))
        begun = release_until_cutoff(zeros, zeros + 3, law, source)
        bottoms = int(np.count_nonzero(begun == BOTTOM))
        stream = opened(source, law, bottoms)
        if bottoms == 3:
            assert stream.judge(1, 100, "next") == UNANSWERED
        else:
            assert stream._threshold == drawn[bottoms]
