"""Functions of other packages with honest mistakes: what one person changes is what was charged, whatever they do."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Gaussian, Release
from curator.mechanisms.counts import MostFrequent, NoisyCount, NoisyHistogram
from curator.mechanisms.moments import ClassMoments
from curator.mechanisms.sums import ClippedSum, LossSum
from curator.metering.access import Access, as_it_is
from curator.metering.meter import Overdrawn
from curator.metering.persons import items_by_person, own, person_by_person
from curator.weights.reweighing import Reweighing
from tests.tiers import for_each

N = 40
SUM = ClippedSum(norm=1.0, width=2, mu=1.0)


def people(last: float = 0.5) -> Records:
    """Return people who differ in the last one's first feature alone."""
    features = np.random.default_rng(3).uniform(-1, 1, size=(N, 2)).astype(np.float32)
    features[-1, 0] = last
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def access(event: Any, records: Records | None = None, seed: int = 1) -> Access:
    records = people() if records is None else records
    return Access(event, Reweighing(len(records), None, 1.0).sampler(records), RandomSource.seeded(seed))


def features(records: Records) -> Any:
    return records.features.astype(np.float64)


def augmented(records: Records) -> Any:
    """A thousand rows of each record."""
    return np.repeat(features(records), 1000, axis=0)


def of_the_block(records: Records) -> Any:
    """Centred by the mean of what it is given: each person's row depends on everybody's."""
    return features(records) - features(records).mean(axis=0)


def some(records: Records) -> Any:
    """Without the rows that are odd."""
    return features(records)[records.features[:, 0] < 0.4]


def fails(records: Records) -> Any:
    if (records.features[:, 0] > 0.4).any():
        raise RuntimeError(f"what is in here: {records.features}")
    return features(records)


def not_numbers(records: Records) -> Any:
    return np.where(records.features > 0.4, np.nan, features(records) * 1e300)


def in_place(records: Records) -> Any:
    records.features[:] *= 1000
    records.labels[:] = 1
    return features(records)


MISTAKES = [augmented, of_the_block, some, fails, not_numbers, in_place]


@for_each("mistake", MISTAKES)
def test_one_person_moves_a_sum_by_what_was_charged_and_nobody_elses_row(mistake: Any) -> None:
    """The sum is of the values as the mechanism clips them: two samples that differ in a record, the same noise."""
    outcomes = []
    for last in (-0.5, 0.3, 0.5, 0.9):
        given = access(Gaussian(mu=1.0), people(last))
        outcomes.append(given.release(SUM, mistake))
        given.close()
    apart = max(float(np.linalg.norm(one - other)) for one in outcomes for other in outcomes)
    assert apart <= 2.0 * SUM.norm * (1.0 + 1e-9)
    made = person_by_person(mistake, SUM, 2, np.dtype(np.float32))
    one, other = made(people(-0.5)), made(people(0.9))
    assert one.shape == other.shape == (N, 2)
    np.testing.assert_array_equal(one[:-1], other[:-1])


def test_a_thousand_rows_of_each_record_have_the_noise_that_one_row_has() -> None:
    """Charged as one release of mu = 1: the noise is that of rows of norm 1, not of a thousandth of it."""
    means = {}
    for of in (features, augmented):
        noise = [access(Gaussian(mu=1.0), seed=s).release(SUM, of) for s in range(60)]
        means[of] = float(np.std(np.array(noise), axis=0).mean())
    assert means[augmented] == pytest.approx(2.0, rel=0.4)  # 2 norm / mu; seeded
    assert means[augmented] == pytest.approx(means[features], rel=1e-6)
    rows = person_by_person(augmented, SUM, 2, np.dtype(np.float32))(people())
    np.testing.assert_allclose(rows, 1000.0 * features(people()), rtol=1e-12)  # and is clipped to the norm, as a whole


def test_no_person_is_left_out_or_counted_twice_by_any_mechanism() -> None:
    column = MostFrequent(1.0, 2)
    cells = NoisyHistogram(1.0, 4)
    cases: list[tuple[Any, Any, Any]] = [
        (NoisyCount(1.0), lambda r: r.labels > 0, people().labels > 0),
        (column, lambda r: r.features > 0, people().features > 0),
        (LossSum(4, 1.0), lambda r: np.full(len(r), 3), np.full(N, 3)),
    ]
    for mechanism, of, expected in cases:
        made = person_by_person(of, mechanism, 2, np.dtype(np.float32))
        np.testing.assert_array_equal(made(people()), expected)
    cell, number = person_by_person(lambda r: (np.array([1]), r.labels), cells, 2, np.dtype(np.float32))(people())
    assert (cell == 1).all()
    np.testing.assert_array_equal(number, people().labels)
    for wild in (-7, 4, 1e30, math.nan, math.inf):

        def astray(records: Records, cell: float = wild) -> Any:
            return np.array([cell if records.features[0, 0] else 0]), np.array([9])

        cell, number = person_by_person(astray, cells, 2, np.dtype(np.float32))(people())
        assert (cell == -1).all()
        assert (np.abs(number) <= 1).all()
    assert (person_by_person(lambda r: np.full(1000, 2), LossSum(4, 1.0), 2, np.dtype(np.float32))(people()) == 4).all()
    items = items_by_person(
        lambda r: np.array([3, 3]) if r.features[0, 0] > 0.4 else np.array([2]), 2, np.dtype(np.float32)
    )(people())
    assert set(items.tolist()) == {-1, 2}


@for_each(
    ("mechanism", "of"),
    [
        (NoisyCount(1.0), lambda r: np.ones(1000)),
        (NoisyCount(1.0), lambda r: "yes"),
        (NoisyHistogram(1.0, 4), lambda r: np.array([1])),
        (NoisyHistogram(1.0, 4), lambda r: (np.arange(4), np.ones(4))),
        (MostFrequent(1.0, 2), lambda r: np.ones((3, 2))),
        (MostFrequent(1.0, 2), lambda r: np.ones((1, 3))),
        (SUM, lambda r: np.ones(2)),
        (SUM, lambda r: None),
        (ClassMoments(1.0, 2, 0.5, 1.0), lambda r: r),
    ],
)
def test_a_function_that_makes_no_value_of_any_person_is_refused_and_nothing_leaves(mechanism: Any, of: Any) -> None:
    """It is tried on a record of zeros, so the refusal depends on no person and may say what was found."""
    given = access(mechanism.price)
    with pytest.raises(Overdrawn, match="tried on a record of zeros"):
        given.release(mechanism, of)
    with pytest.raises(Overdrawn):
        given.close()


def test_whether_a_function_fails_on_somebody_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    fine = access(Gaussian(mu=1.0), people(0.3))
    odd = access(Gaussian(mu=1.0), people(0.9))
    for given in (fine, odd):
        assert given.release(SUM, fails).shape == (2,)
        given.close()
    assert caplog.text == ""


def test_shares_take_one_item_of_each_person() -> None:
    for several in (lambda r: np.zeros((len(r), 3)), lambda r: np.zeros(1000), lambda r: None):
        given = access(Release(epsilon=1.0))
        with pytest.raises(Overdrawn, match="tried on a record of zeros"):
            given.shares(1.0, 3, several)
        with pytest.raises(Overdrawn):
            given.close()


def test_the_curators_own_functions_are_given_blocks_and_nobody_elses_are() -> None:
    assert own(as_it_is)
    assert own(partial(as_it_is))
    assert not any(own(of) for of in (features, lambda r: r, partial(features), np.asarray, len))
    seen: list[int] = []
    access(Release(epsilon=1.0)).release(NoisyCount(1.0), lambda r: (seen.append(len(r)), r.labels > 0)[1])
    assert seen == [1] * (N + 1)
