"""A_stab: distances against every data set of a few people, the exact law, and functions that fail or keep silent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from common.core.errors import BadInput
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Release
from common.privacy.theorems.votes import stability_level, stability_margin
from curator.mechanisms import stability
from curator.mechanisms.access import Access, Overdrawn
from curator.mechanisms.stability import (
    ExactQuantile,
    MostCommon,
    OfChunks,
    StableFunction,
    StableRelease,
    a_stab,
    plurality,
)
from curator.sample.reweighing import Reweighing
from tests.curator.operations.given import assert_law
from tests.tiers import for_each

DataSet = tuple[int, ...]


def numbers(data: DataSet) -> list[Any]:
    return [np.array(data[:2], dtype=np.int64), np.array(data[2:], dtype=np.int64)]


def people(data: DataSet) -> list[Any]:
    features = np.array(data, dtype=np.float32)[:, None]
    return [Records(part, np.ones(len(part), dtype=np.int8)) for part in (features[:2], features[2:])]


def total(records: Records) -> int | None:
    """Return something of a chunk that any of its records may change; fail for some."""
    if records.features.sum() == 2:
        raise ArithmeticError
    return int(records.features.sum())


FUNCTIONS: list[tuple[StableFunction[Any, Any], Callable[[DataSet], list[Any]]]] = [
    (MostCommon(), numbers), (ExactQuantile(), numbers), (ExactQuantile(0.8), numbers), (OfChunks(total, 6), people),
    (OfChunks(total, 4), people),
]  # fmt: skip


def neighbours(data: DataSet) -> Iterator[DataSet]:
    for place, other in product(range(len(data)), range(3)):
        yield (*data[:place], other, *data[place + 1 :])


@for_each(("function", "blocks"), FUNCTIONS)
def test_a_distance_has_what_the_theorem_needs(function: Any, blocks: Any) -> None:
    """Theorem 2.4's two conditions, on all data sets of six people over three values, and all their neighbours."""
    found = {data: function.of(blocks(data)) for data in product(range(3), repeat=6)}
    for data, (value, distance) in found.items():
        for other in neighbours(data):
            assert abs(found[other][1] - distance) <= 1
            assert distance == 0 or found[other][0] == value
    assert max(distance for _, distance in found.values()) >= 1


@for_each("function", [MostCommon(), ExactQuantile(), ExactQuantile(0.8)])
def test_a_distance_is_the_greatest_number_of_records_that_change_nothing(function: Any) -> None:
    """Definition 2.3: k-stable, by trying whatever k records may become; numbers beyond all others included."""
    for data in product(range(2), repeat=5):
        value, distance = function.of(numbers(data))

        def stable(k: int, data: DataSet = data, value: int = value) -> bool:
            for places in combinations(range(5), k):
                for others in product((-9, 0, 1, 9), repeat=k):
                    changed = list(data)
                    for place, other in zip(places, others, strict=True):
                        changed[place] = other
                    if function.of(numbers(tuple(changed)))[0] != value:
                        return False
            return True

        assert stable(distance)
        assert distance == 0 or not stable(distance + 1) or distance + 1 > 5


def test_a_plurality_is_the_first_of_the_largest() -> None:
    assert plurality([3, 9, 9]) == (1, 0)
    assert plurality([9]) == (0, 4)
    assert [plurality([10, 10 - gap])[1] for gap in range(8)] == [0, 0, 0, 1, 1, 2, 2, 3]


@for_each("distance", [0, 3, 3.9])
def test_a_value_is_released_with_the_chance_of_the_exact_law(distance: float) -> None:
    """An unstable value is released with probability delta at most, a stable one by the noise's tail."""
    epsilon, delta = 0.7, 0.05
    level, q = stability_level(epsilon, delta), math.exp(-epsilon)
    beyond = level - math.floor(distance)
    chance = q ** (beyond + 1) / (1 + q) if beyond >= 0 else 1 - q ** (-beyond) / (1 + q)
    found = [a_stab("x", distance, epsilon, delta, RandomSource.seeded(seed)) is not None for seed in range(1000)]
    assert_law(found, {True: chance, False: 1 - chance})
    assert distance > 0 or chance <= delta


def test_a_value_this_far_from_instability_is_released_surely() -> None:
    """Theorem 2.5."""
    far = stability_margin(1e-9, 1.0, 1e-6)
    assert far <= math.log(1e6) + math.log(1e9) + 2
    assert {a_stab(7, far, 1.0, 1e-6, RandomSource.seeded(seed)) for seed in range(200)} == {7}


@for_each(
    ("distance", "epsilon", "delta"),
    [
        (-1.0, 1.0, 0.1), (math.nan, 1.0, 0.1), (1.0, 0.0001, 0.1), (1.0, math.nan, 0.1), (1.0, 1.0, 0.0),
        (1.0, 1.0, 1.0),
    ],
)  # fmt: skip
def test_numbers_outside_their_range_are_refused(distance: float, epsilon: float, delta: float) -> None:
    with pytest.raises(BadInput, match="A_stab wants"):
        a_stab(1, distance, epsilon, delta, RandomSource.seeded(1))
    with pytest.raises(BadInput, match="share"):
        ExactQuantile(0.0)


def access(records: Records, event: Any) -> Access:
    sampler = Reweighing(len(records), None, 1.0).sampler(records)
    return Access(event, sampler, RandomSource.seeded(1))


def test_an_access_pays_for_it_once_and_gives_a_package_one_record_at_a_time() -> None:
    features = np.repeat(np.array([[5.0], [2.0]], dtype=np.float32), (60, 10), axis=0)
    records, paid = Records(features, np.ones(70, dtype=np.int8)), Release(epsilon=1.0, delta=1e-3)
    seen = access(records, paid)
    wanted: StableRelease[Any, Any] = StableRelease(MostCommon(), 1.0, 1e-3)
    assert seen.release(wanted, lambda record: record.features[0]) == 5
    with pytest.raises(Overdrawn):
        seen.release(wanted, lambda record: record.features[0])
    odd = access(records, paid)
    assert odd.release(wanted, lambda record: np.nan if record.features[0, 0] > 0 else 0) == 0  # counts as nothing
    chunks: StableRelease[Any, Any] = StableRelease(OfChunks(lambda part: {"mean": 1, "n": [1.0]}, 30), 1.0, 1e-3)
    assert access(records, paid).release(chunks) == {"mean": 1, "n": [1]}


def test_functions_of_others_and_what_is_no_json_are_not_taken() -> None:
    class Own(MostCommon):
        """Says what it likes."""

    with pytest.raises(TypeError, match="part of curator"):
        StableRelease(Own(), 1.0, 0.1)
    records = people((1, 1, 2, 2, 0, 0))
    assert OfChunks(lambda part: object(), 3).of(records) == (None, 1)
    assert OfChunks(lambda part: len(part) == 2 or 1, 3).of(records) == (True, 1)
    assert stability.FARTHEST > 1 << 32
