"""The model-agnostic learner under audit: noisy counts, the sparse vector of stable votes, and how people are divided.

Teachers and their votes are computed once an input, by the code that is shipped; what is random is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any
from unittest.mock import patch

import numpy as np

from common.core.arrays import AnyArray, Bits, Indices
from common.learners.model_agnostic import SparseVector
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from common.privacy.budget import cost
from common.privacy.theorems.votes import Thresholds, calibrated
from curator.learners import teachers
from curator.learners.base import parse_learner
from curator.learners.model_agnostic import ModelAgnostic
from curator.learners.scikit import Trainable
from curator.learners.teachers import (
    LabelClasses,
    StreamOfAnswers,
    TeacherAnswers,
    aggregate,
    chunk_of,
    count_votes,
    release_until_cutoff,
    votes,
)
from curator.mechanisms.counts import geometric_noise
from curator.mechanisms.stability import distances, winners
from curator.sample.base import LocalSample
from deploy.auditing import Case

AUDITED = {
    "access TeacherAnswers": ("noisy votes", "votes by content", "people set aside", "a sparse vector"),
    "access TeacherStream": ("a stream across restarts",),
}
"""The cases here of each way to use people, and of each operation."""

DELTA = 0.01
MAJORITY = {"classifier": "DummyClassifier", "parameters": {"strategy": "most_frequent"}}
Divide = Callable[[Records, int, Any], Indices]


def people(labels: list[int], first: int = 0) -> Records:
    """Return people with these labels, no two of them alike."""
    features = np.arange(first, first + len(labels), dtype=np.float32)[:, None]
    return Records(features, np.array(labels, dtype=np.int8))


def of_classes(classes: list[int]) -> Records:
    """Return people of these classes out of three, which stand in columns behind a feature; all have the same label."""
    alike = people([1] * len(classes))
    return Records(np.column_stack([alike.features, np.eye(3, dtype=np.float32)[classes]]), alike.labels)


def learner(
    chunks: int, noise: float, by: str = "slot", queries: int = 4, classes: dict[str, int] | None = None
) -> ModelAgnostic:
    """Return a learner with noisy counts."""
    found = parse_learner(
        {
            "name": "model-agnostic",
            "chunks": chunks,
            "by": by,
            "queries": queries,
            "teacher": MAJORITY,
            "student": MAJORITY,
            "aggregation": {"name": "gnmax", "noise": noise},
            "classes": classes,
        }
    )
    if not isinstance(found, ModelAgnostic):
        raise AssertionError("the name is that of another learner")
    return found


def claimed(chosen: ModelAgnostic) -> float:
    """Return what all answers of a learner cost by its own word."""
    return cost([(chosen.event(1.0), 1)], DELTA)


def answered(chosen: ModelAgnostic, divide: Divide = chunk_of, noise: float | None = None) -> Subject:
    """One sequence of answers a run: the sum of their classes; of two, the number of positive ones."""
    kinds = chosen._classes

    def subject(records: Records, runs: int, source: RandomSource) -> AnyArray:
        (everybody,) = LocalSample.from_records(records).blocks(1 << 20)
        chunk = divide(everybody, chosen.chunks, chosen.by)
        points = np.zeros((chosen.queries, 1), dtype=np.float32)
        inputs, known = kinds.inputs(everybody.features), kinds.of(everybody)
        cast = votes(chosen.teacher, inputs, chunk, chosen.chunks, points, source.derive("votes"), classes=known)
        counts = np.tile(count_votes(cast, kinds.number), (runs, 1))
        aggregation = chosen.aggregation
        if noise is not None:
            aggregation = aggregation.model_copy(update={"noise": noise})
        aggregated = aggregate(aggregation, counts, chosen.queries, chosen.touched, None, source.derive("aggregate"))
        return np.asarray(aggregated.reshape(runs, chosen.queries).sum(axis=1))

    return subject


def count_case() -> Case:
    """Eight teachers with one record each, four of either mind; one record changes its mind."""
    chosen = learner(8, 4.0)
    inputs = people([1, 1, 1, 1, -1, -1, -1, -1]), people([1, 1, 1, 1, 1, -1, -1, -1])
    twins = {"half the noise": answered(chosen, noise=1.5)}
    return Case("noisy votes", claimed(chosen), inputs, answered(chosen), 100_000, DELTA, twins, least=0.3)


def classes_case() -> Case:
    """Eight teachers with one record each, four for one of three classes, four for another; one record changes over."""
    chosen = learner(8, 4.0, classes={"first": 1, "count": 3})
    inputs = of_classes([2, 2, 2, 2, 0, 0, 0, 0]), of_classes([2, 2, 2, 2, 2, 0, 0, 0])
    twins = {"half the noise": answered(chosen, noise=1.5)}
    return Case("votes for three classes", claimed(chosen), inputs, answered(chosen), 100_000, DELTA, twins, least=0.3)


def content_case() -> Case:
    """Somebody of a chunk is replaced by somebody of another one: both teachers change their minds."""
    chosen = learner(8, 3.0, "content", queries=1)
    known = people([1] * 400)
    chunk = chunk_of(known, 8, "content")
    records = known.take(np.array([int(np.flatnonzero(chunk == j)[0]) for j in range(8)]))
    records.labels[6:] = -1
    features, labels = records.features.copy(), records.labels.copy()
    labels[0] = -1
    for value in range(400, 800):  # chunk 0 loses the only one it had, chunk 1 is of two minds
        features[0], other = value, Records(features, labels)
        if chunk_of(other, 8, "content")[0] == 1:
            break
    twins = {"two teachers at the price of one": answered(learner(8, 1.5, "content", queries=1))}
    return Case(
        "votes by content", claimed(chosen), (records, other), answered(chosen), 100_000, DELTA, twins, least=0.3
    )


def _one_after_the_other(records: Records, chunks: int, by: Any) -> Indices:
    return np.minimum(np.arange(len(records), dtype=np.int64) // 2, chunks - 1)


def leaving_case() -> Case:
    """Somebody leaves. Where chunks are cut one after the other, everybody behind moves, and every vote may turn."""
    chosen = learner(12, 9.0, "content", queries=1)
    everybody = [1, 1, -1, -1] * 6
    inputs = people(everybody), people(everybody[1:], first=1)
    twins = {"chunks one after the other": answered(chosen, _one_after_the_other)}
    return Case("somebody leaves", claimed(chosen), inputs, answered(chosen), 100_000, DELTA, twins)


NEAR = Trainable(classifier="RadiusNeighborsClassifier", parameters={"radius": 5.0})
"""It fails for all rows if one of them has no neighbour."""


def set_aside(ballots_of: Callable[..., Bits] = votes) -> Subject:
    """One sparse vector a run, with an estimate of the teachers' mistakes: the sum of the classes of four points."""
    vector = SparseVector(epsilon=3.0, delta=DELTA, cutoff=1, estimate=0.25)
    mechanism = TeacherAnswers(vector, NEAR, LabelClasses(), 40, "slot", 4, np.zeros((4, 1), dtype=np.float32))

    def subject(records: Records, runs: int, source: RandomSource) -> AnyArray:
        cast: list[Bits] = []

        def once(*arguments: Any) -> Bits:
            if not cast:
                cast.append(ballots_of(*arguments))
            return cast[0]

        with patch.object(teachers, "votes", once):
            return np.array([mechanism.apply(iter([records]), source.derive(run)).sum() for run in range(runs)])

    return subject


def _in_one_call(*arguments: Any) -> Bits:
    ballots_of: Callable[..., Bits] = votes
    *training, points, source, classes, aside = arguments
    return ballots_of(*training, np.concatenate([points, aside]), source, classes)


def aside_case() -> Case:
    """Somebody who teaches no teacher moves far away. No vote on a public point may change."""
    labels = np.array([1] * 80 + [-1] * 40 + [1] * 120, dtype=np.int8)  # each of 40 teachers has two +1 and one -1
    records = Records(np.zeros((240, 1), dtype=np.float32), labels)
    moved = records.features.copy()
    moved[130] = 1e4
    twins = {"points and people set aside in one call": set_aside(_in_one_call)}
    return Case("people set aside", 3.0, (records, Records(moved, records.labels)), set_aside(), 600, DELTA, twins)


# The sparse vector ----------------------------------------------------------------------------------------------------

EPSILON = 4.0
LAW = calibrated(1, 20, EPSILON, DELTA)
"""One bottom is paid for."""


def ballots(*leads: int) -> Indices:
    """Return counts of 1000 teachers' votes, in each of which one side leads by twice so many."""
    return np.array([(500 - lead, 500 + lead) for lead in leads], dtype=np.int64)


class Unneeded(RandomSource):
    """A source that nobody draws from: deriving others would take longer than everything else."""

    def __init__(self) -> None:
        super().__init__(bytes(32), simulated=True)

    def derive(self, *labels: str | int) -> RandomSource:
        return self


def compared(
    law: Thresholds, epoch: int, measure: Callable[[Indices], Indices] = distances, keeps: bool = False
) -> Subject:
    """One sequence a run: how many times from the beginning on all pass but the last of each ``epoch`` queries.

    The noise of all runs is drawn at once.

    Args:
        measure: Of the distances.
        keeps: Whether the first threshold stays, bottom or not.
    """

    def subject(counts: Indices, runs: int, source: RandomSource) -> AnyArray:
        values, stable, most = winners(counts), measure(counts), law.cutoff
        levels = geometric_noise(runs * most, law.of_threshold, source.derive("levels")).reshape(runs, most)
        others = geometric_noise(runs * len(counts), law.of_query, source.derive("others")).reshape(runs, -1)
        levels = np.repeat(levels[:, :1], most, axis=1) if keeps else levels
        expected = np.arange(len(counts)) % epoch < epoch - 1
        found = np.zeros(runs)
        unneeded = Unneeded()
        drawn = {law.of_threshold: iter(levels), law.of_query: iter(others)}
        with patch.object(teachers, "geometric_noise", lambda count, epsilon, source: next(drawn[epsilon])):
            for run in range(runs):
                passed = release_until_cutoff(values, stable, law, unneeded) >= 0
                right = (passed == expected).reshape(-1, epoch).all(axis=1)
                found[run] = len(right) if right.all() else np.argmin(right)
        return found

    return subject


def printed(counts: Indices) -> Indices:
    """Return the distances as Algorithm 2 prints them."""
    ordered = np.sort(counts, axis=1)
    return np.asarray(np.maximum(0, ordered[:, -1] - ordered[:, -2] - 1), dtype=np.int64)


def cutoff_case() -> Case:
    """Two that mostly pass, one that mostly does not; a turned vote makes all three less so. One bottom is paid for."""
    one = ballots(LAW.level + 2, LAW.level + 2, LAW.level)
    other = ballots(LAW.level + 1, LAW.level + 1, LAW.level + 1)
    more = LAW._replace(cutoff=4)
    twins = {
        "goes on after the last bottom (c <= T)": compared(more, 3),
        "goes on with the threshold that it had": compared(more, 3, keeps=True),
    }
    inputs = np.tile(one, (4, 1)), np.tile(other, (4, 1))
    return Case("a sparse vector", EPSILON, inputs, compared(LAW, 3), 60_000, DELTA, twins, least=1.0)


def distance_case() -> Case:
    """A turned vote changes the printed distance by 2, and the noise is for 1."""
    passing = (LAW.level + 1) // 2 + 1
    one, other = ballots(*[passing] * 4, passing - 1), ballots(*[passing - 1] * 4, passing)
    twins = {"the printed distance": compared(LAW, 5, printed)}
    return Case("distances", EPSILON, (one, other), compared(LAW, 5), 6_000, DELTA, twins)


class Derived(Unneeded):
    """Knows what it was derived for."""

    def __init__(self, *labels: str | int) -> None:
        super().__init__()
        self.labels = labels

    def derive(self, *labels: str | int) -> RandomSource:
        return Derived(*labels)


def streamed(law: Thresholds, forgets: bool = False, alike: bool = False) -> Subject:
    """One stream a run, asked one question after the other: how many answers are as they mostly are before one is not.

    Mostly all pass but the last of each three. Before each question the curator starts again.

    Args:
        forgets: Whether it has forgotten then that answers were bottoms.
        alike: Whether each question gets the noise of the first.
    """

    def subject(counts: Indices, runs: int, source: RandomSource) -> AnyArray:
        values, stable, most = winners(counts).tolist(), distances(counts).tolist(), len(counts)
        levels = geometric_noise(runs * (most + 1), law.of_threshold, source.derive("levels")).reshape(runs, -1)
        others = geometric_noise(runs * most, law.of_query, source.derive("others")).reshape(runs, -1)

        def passes(run: int) -> Iterator[bool]:
            def noise(count: int, epsilon: float, drawn: Derived) -> Indices:
                what, *lineage = drawn.labels
                if what == "question":
                    return np.repeat(others[run, 0 if alike else int(lineage[0])], count)
                return np.repeat(levels[run, int(lineage[0]) + 1 if lineage else 0], count)

            steps: list[tuple[str, bool]] = []
            with patch.object(teachers, "geometric_noise", noise):
                for place in range(most):
                    stream = StreamOfAnswers([], LabelClasses(), 1, law, 0, Derived())
                    for lineage, bottom in steps:
                        stream.advance(lineage, bottom=bottom and not forgets)
                    steps.append((str(place), stream.judge(values[place], stable[place], str(place)) < 0))
                    yield not steps[-1][1]

        def right(run: int) -> int:
            return sum(1 for _ in takewhile(lambda one: one[1] == (one[0] % 3 < 2), enumerate(passes(run))))

        return np.array([right(run) for run in range(runs)], dtype=np.float64)

    return subject


def stream_case() -> Case:
    """The inputs of the sparse vector; the curator dies after each answer, and goes on where it was."""
    one, other = (np.tile(ballots(*leads), (4, 1)) for leads in ((2, 2, 0), (1, 1, 1)))
    one, other = one + LAW.level * np.array([-1, 1]), other + LAW.level * np.array([-1, 1])
    twins = {
        "a restart forgets the bottoms": streamed(LAW, forgets=True),
        "one noise for all questions": streamed(LAW, alike=True),
    }
    return Case("a stream across restarts", EPSILON, (one, other), streamed(LAW), 20_000, DELTA, twins, least=0.5)


def cases() -> list[Case]:
    """Return every case of votes."""
    sequences = [cutoff_case(), distance_case(), stream_case()]
    return [count_case(), classes_case(), content_case(), leaving_case(), aside_case(), *sequences]
