"""What the curator releases of its sample itself, under audit: a selection, a count, parities by blocks, a head list.

Each pair of samples differs in one person, as unfavourably as we know. Every twin is the same code without one of its
safeguards, and releases more than it is charged for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.local.hypotheses.rules import Constant, Stump
from common.local.losses import HypothesisLoss, ScoreCells
from common.local.mechanisms.mechanism import Laplace
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import (
    BlockParities,
    Count,
    CountedHead,
    HeadList,
    LearnParities,
    Margins,
    Operation,
    ReleasedCount,
    Select,
    SelectedFeature,
)
from common.privacy.auditing import Subject
from common.privacy.budget import cost
from common.privacy.theorems.randomized_response import rates
from curator.engine import Workspace
from curator.mechanisms import counts as counting
from curator.mechanisms import parities, selection, stability, sums
from curator.mechanisms.counts import NoisyHead, NoisyHistogram
from curator.mechanisms.gaussian_noise import fine_normals, whole_normals
from curator.mechanisms.parities import RankParities
from curator.mechanisms.selection import choose_level
from curator.mechanisms.stability import MostCommon, StableRelease
from curator.mechanisms.sums import ClassMoments, ClippedSum, CoordinateMoments, CoordinateSums, Moments
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from deploy.auditing import Case, Safeguard, without

AUDITED = {
    "access ClassMoments": ("class moments",),
    "access ClippedSum": ("a clipped sum",),
    "access CoordinateMoments": ("moments of coordinates", "moments of coordinates, in a box"),
    "access MostFrequent": ("a selection",),
    "access NoisyCount": ("a count",),
    "access NoisyHead": ("a head list",),
    "access NoisyHistogram": ("a noisy histogram",),
    "access NoisyShares": ("weighted shares by score and label",),
    "access StableRelease": ("a stable value",),
    "access RankParities": ("parities of a block", "parities by blocks"),
    "operations count": ("a count",),
    "operations head": ("a head list",),
    "operations margins": ("weighted shares by score and label",),
    "operations parities": ("parities of a block", "parities by blocks"),
    "operations select": ("a selection",),
}
"""The cases here of each way to use people, and of each operation."""

Number = Callable[[Any], float]
"""What the auditor looks at in an operation's result."""


def people(features: Any, labels: Any = None) -> Records:
    """Return records of 0/1 features; labels are 0/1, too, and 1 if not given."""
    rows = np.array(features, dtype=np.uint8)
    signs = np.ones(len(rows)) if labels is None else 2.0 * np.array(labels) - 1.0
    return Records(rows, signs.astype(np.int8))


def workspace(records: Records) -> Workspace:
    """Return a workspace without a learner."""
    return Workspace(LocalSample.from_records(records), Reweighing(len(records), None, 1.0), None)


def claimed(operation: Operation[Any], delta: float = 0.0) -> float:
    """Return what the operation declares to cost."""
    return cost([(workspace(people([[0]])).event(operation), 1)], delta)


def released(
    operation: Operation[Any],
    number: Number,
    safeguard: Safeguard | None = None,
    other: Any = None,
) -> Subject:
    """One release a run, of the operation as it is, or with something else in the place of a safeguard."""

    def shipped(records: Records, runs: int, source: RandomSource) -> AnyArray:
        local_curator = workspace(records)
        return np.array([number(local_curator.perform(operation, source.derive(run))) for run in range(runs)])

    return without(safeguard, other, shipped) if safeguard else shipped


# Selection and count -------------------------------------------------------------------------------------------------


def select_case() -> Case:
    """One person, who has the first of eight features only, or all the others: one score falls as all others rise."""
    operation = Select(count=8, epsilon=2.0)
    inputs = people([[1] + 7 * [0]]), people([[0] + 7 * [1]])

    def number(output: SelectedFeature) -> float:
        return float(output.feature == 0)

    halved = released(
        operation,
        number,
        (selection, "choose_level"),
        lambda counts, e, source: choose_level(counts, 2 * e, source),
    )
    twins = {"half the sensitivity": halved}
    return Case("a selection", claimed(operation), inputs, released(operation, number), 4000, twins=twins, least=1.0)


def stable_case() -> Case:
    """Twelve people of one mind against one: five could change theirs; then one does, and four could."""
    mechanism = StableRelease(MostCommon(), 1.0, 0.01)
    inputs = np.repeat([7, 3], (12, 1)), np.repeat([7, 3], (11, 2))

    def subject(values: AnyArray, runs: int, source: RandomSource) -> AnyArray:
        said = (mechanism.apply(iter([values]), source.derive(run)) for run in range(runs))
        return np.array([0.0 if one is None else 1.0 for one in said])

    quiet = without((stability, "geometric_noise"), lambda count, *_: np.zeros(count, dtype=np.int64), subject)
    twins = {"the distance without noise": quiet}
    return Case("a stable value", 1.0, inputs, subject, 20_000, 0.01, twins, least=0.5)


def count_case() -> Case:
    """One person, who is counted or not."""
    operation = Count(feature=0, epsilon=1.0)

    def number(output: ReleasedCount) -> float:
        return float(output.count)

    twins = {
        "half the noise": released(operation.model_copy(update={"epsilon": 2.0}), number),
        "noise that is never negative": released(operation, number, (Laplace, "noise"), Laplace.successes),
    }
    inputs = people([[1]]), people([[0]])
    return Case("a count", claimed(operation), inputs, released(operation, number), 4000, twins=twins, least=0.6)


def _half(deviation: float, count: int, source: RandomSource) -> AnyArray:
    return np.asarray(whole_normals(deviation, count, source) // 2)


HEAVY = Margins(cells=ScoreCells(hypothesis=Stump(feature=0, threshold=0.5, sign=1), cuts=(0.0,)), mu=1.0)


def weighed_margins(replaced: Records, runs: int, source: RandomSource) -> AnyArray:
    """Weighted shares, released once a run, after a reweigh that gives the first person all the weight that it can.

    That person has label +1 and is in the one bin or the other, and the rest have label -1: all that the one share
    loses, the other one gains. The number is the best test's, the difference of both.
    """
    sample = LocalSample.from_records(replaced)
    weights = Reweighing(len(replaced), 0.25, 5.0)
    weights.update(sample, HypothesisLoss(Constant(label=-1)))
    desk, found = Workspace(sample, weights, None), []
    for run in range(runs):
        output = desk.perform(HEAVY, source.derive(run)).fractions
        found.append(float(output[3] - output[1]))
    return np.array(found)


def margins_case() -> Case:
    """One of 44 people, who weighs as much as four and is in the one bin of a score or in the other."""
    inputs = tuple(people([[bin_], *[[0]] * 43], [1] + 43 * [0]) for bin_ in (1, 0))
    plain = without((Reweighing, "share_bound"), lambda weights: 1.0 / weights.n, weighed_margins)
    quiet = without((sums, "whole_normals"), _half, weighed_margins)
    twins = {"noise for a weight of 1/n": plain, "half the noise": quiet}
    name, delta = "weighted shares by score and label", 0.01
    both = inputs[0], inputs[1]
    return Case(name, claimed(HEAVY, delta), both, weighed_margins, 4000, delta, twins, least=0.6)


# Mechanisms that plug-ins use -----------------------------------------------------------------------------------------


def applied(
    mechanism: Any, number: Callable[[Any], float], safeguard: Safeguard | None = None, other: Any = None
) -> Subject:
    """Apply a mechanism to given values once a run, or with something else in the place of a safeguard."""

    def shipped(values: Any, runs: int, source: RandomSource) -> AnyArray:
        return np.array([number(mechanism.apply(iter([values]), source.derive(run))) for run in range(runs)])

    return without(safeguard, other, shipped) if safeguard else shipped


def histogram_case() -> Case:
    """One person, who says to be a thousand of the one cell or of the other; numbers are cut to 1."""
    mechanism = NoisyHistogram(epsilon=1.0, cells=2)
    inputs = (np.array([0]), np.array([1000])), (np.array([1]), np.array([1000]))

    def number(output: AnyArray) -> float:
        return float(output[0] >= 1 and output[1] <= 0)

    twins = {
        "numbers without clipping": applied(mechanism, number, (counting, "_clip_numbers"), _as_it_is),
        "noise for one cell": applied(mechanism, number, (counting, "down"), lambda half: 2.0 * half),
    }
    return Case("a noisy histogram", 1.0, inputs, applied(mechanism, number), 4000, twins=twins, least=0.6)


def _as_it_is(values: AnyArray) -> AnyArray:
    return values


def sum_case() -> Case:
    """One person, whose vector is far beyond the norm, one way or the other."""
    mechanism, delta = ClippedSum(norm=2.0, width=3, mu=1.0), 0.01
    inputs = np.full((1, 3), 1e200), np.full((1, 3), -1e200)

    def number(output: AnyArray) -> float:
        return float(output.sum())

    twins = {
        "half the noise": applied(
            mechanism,
            number,
            (sums, "fine_normals"),
            lambda count, source: fine_normals(count, source) // 2,
        )
    }
    claim = cost([(mechanism.price, 1)], delta)
    return Case("a clipped sum", claim, inputs, applied(mechanism, number), 4000, delta=delta, twins=twins, least=0.6)


def quieter(mechanism: Any, number: Callable[[Any], float]) -> Subject:
    """Apply a mechanism with half its whole noise."""
    return applied(mechanism, number, (sums, "whole_normals"), _half)


def moments_case() -> Case:
    """One person, whose features are far beyond the norm, one way or the other: all that differs is their sum."""
    mechanism, delta = ClassMoments(norm=2.0, width=2, mu=1.0), 0.01
    one, other = (Records(np.array([[far, 0.0]], dtype=np.float32), np.ones(1, dtype=np.int8)) for far in (1e20, -1e20))

    def number(output: Moments) -> float:
        return float(output.first[1, 0])

    twins = {"half the noise": quieter(mechanism, number)}
    claim = cost([(mechanism.price, 1)], delta)
    return Case(
        "class moments", claim, (one, other), applied(mechanism, number), 4000, delta=delta, twins=twins, least=0.6
    )


def coordinates_case() -> Case:
    """One person far beyond the norm, 60 degrees to this side of a diagonal or to that; the number is the best test's.

    That is the likelihood ratio's statistic, as all noise has one deviation.
    """
    mechanism, delta = CoordinateMoments(norm=2.0, width=2, mu=1.0), 0.01
    places = [np.array([[np.cos(turn), np.sin(turn)]]) for turn in np.radians([105.0, -15.0])]
    apart = np.concatenate([places[0] - places[1], np.square(places[0]) - np.square(places[1])])

    def number(output: CoordinateSums) -> float:
        return float(np.sum(apart * np.stack(output[:2])))

    one, other = (Records((8.0 * place).astype(np.float32), np.ones(1, dtype=np.int8)) for place in places)
    far = (sums, "clipped"), lambda rows, norm, cells: np.rint(rows / norm * cells)
    twins = {
        "half the noise": quieter(mechanism, number),
        "features without clipping": applied(mechanism, number, *far),
    }
    claim = cost([(mechanism.price, 1)], delta)
    return Case(
        "moments of coordinates", claim, (one, other), applied(mechanism, number), 4000, delta, twins, least=0.6
    )


def box_case() -> Case:
    """One person next to a corner of the box, or far beyond the opposite one: features differ, and who is at an end.

    The number is the best test's: both differences, each by the variance of its noise.
    """
    mechanism, delta = CoordinateMoments(norm=None, width=3, mu=1.0), 0.01
    near, far = (np.full((1, 3), value, dtype=np.float32) for value in (1.0 - 2.0 / sums.GRID, -8.0))
    one, other = (Records(features, np.ones(1, dtype=np.int8)) for features in (near, far))

    def number(output: CoordinateSums) -> float:
        assert output.ends is not None
        return float(output.first.sum() - 0.25 * output.ends.sum())

    def at_ends(output: CoordinateSums) -> float:
        assert output.ends is not None
        return -float(output.ends.sum())

    plain, square, people = mechanism.deviations
    twins = {
        "half the noise": quieter(mechanism, number),
        "features outside the box": applied(mechanism, number, (sums, "boxed"), lambda features: features),
        "little noise on people at an end": applied(
            mechanism, at_ends, (CoordinateMoments, "deviations"), property(lambda self: (plain, square, people / 8.0))
        ),
    }
    claim = cost([(mechanism.price, 1)], delta)
    return Case(
        "moments of coordinates, in a box", claim, (one, other), applied(mechanism, number), 4000, delta, twins,
        least=0.6,
    )  # fmt: skip


# Parities ------------------------------------------------------------------------------------------------------------


def block_case() -> Case:
    """One block of two people, who agree or contradict each other: only then nobody's answer says so."""
    operation = LearnParities(features=1, first=0, bits=1, blocks=1, parts=1, epsilon=1.0)
    inputs = people([[0], [0]], [1, 0]), people([[0], [0]], [1, 1])

    def number(output: BlockParities) -> float:
        return float(output.parities[0][0] is None)

    always = released(operation, number, (parities, "rates"), lambda rule, e: rates(rule, e)._replace(answers=1.0))
    twins = {"bottom only where it must be": always}
    return Case(
        "parities of a block", claimed(operation), inputs, released(operation, number), 2000, twins=twins, least=0.1
    )


def blocks_case() -> Case:
    """Two blocks of ranks: with the first person's value another one goes from block to block. Found by search."""
    operation = LearnParities(features=1, first=1, bits=1, blocks=2, parts=1, epsilon=2.0)
    inputs = people([[0, 1], [0, 0], [1, 0]], [1, 0, 1]), people([[0, 0], [0, 0], [1, 0]], [1, 0, 1])

    def number(output: BlockParities) -> float:
        code = 0
        for answer in output.parities[0]:
            code = 5 * code + (0 if answer is None else 1 + sum(1 << feature for feature in answer))
        return float(code)

    law = rates(operation.rule, operation.epsilon)
    twins = {"every block of ranks at full epsilon": released(operation, number, (RankParities, "law"), law)}
    return Case(
        "parities by blocks", claimed(operation), inputs, released(operation, number), 2000, twins=twins, least=0.5
    )


# Head list -----------------------------------------------------------------------------------------------------------


LISTED = NoisyHead.apply


def same_people(mechanism: NoisyHead, values: Iterator[AnyArray], source: RandomSource) -> Any:
    """List and count everybody, at the whole epsilon each: the odd half is as the even one."""
    held = np.concatenate(list(values))
    return LISTED(mechanism, iter([held[np.arange(len(held)) // 2 * 2]]), source)


def head_case() -> Case:
    """Two values that many hold; one person, who is of the half that chooses, holds the one or the other."""
    operation = HeadList(bits=1, most=2, epsilon=2.5)
    values = np.repeat([0, 1] * 12, 2)
    other = values.copy()
    other[0] = 1
    inputs = people(values[:, None]), people(other[:, None])

    def number(output: CountedHead) -> float:
        items, counts = output.items, dict(zip(output.items, output.counts, strict=True))
        order = 0 if not items else 1 + items[0] + 2 * (len(items) - 1)
        return order + 10 * float(np.clip(counts.get(0, 0) - counts.get(1, 0), -8, 8))

    twins = {
        "half the noise": released(operation.model_copy(update={"epsilon": 5.0}), number),
        "the same people choose and are counted": released(operation, number, (NoisyHead, "apply"), same_people),
    }
    return Case("a head list", claimed(operation), inputs, released(operation, number), 4000, twins=twins, least=0.6)


def cases() -> list[Case]:
    """Return every case of a release."""
    return [
        select_case(), count_case(), margins_case(), histogram_case(), sum_case(), moments_case(), coordinates_case(),
        box_case(), block_case(), blocks_case(), head_case(), stable_case(),
    ]  # fmt: skip
