"""The meter: what each event pays for, to the last digit, and that what is refused takes nothing."""

from __future__ import annotations

import inspect
import math
import sys
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import (
    Composed,
    Event,
    Gaussian,
    NoEvent,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)
from curator.learners.base import LEARNERS
from curator.mechanisms.access import PUBLIC_STREAMS, Access, Meter, Overdrawn, unchanged
from curator.mechanisms.base import CENTRAL, ItemOfPerson, NoValue, ValueOfPerson, central, is_own, person_by_person
from curator.mechanisms.counts import NoisyCount, NoisyHistogram
from curator.mechanisms.selection import MostFrequent
from curator.mechanisms.sums import ClassMoments, ClippedSum, LossSum
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing, Sampler
from tests.curator.mechanisms.greedy import Homemade
from tests.tiers import for_each

LAW = LEARNERS["chosen"].example()[0].event(1.0).law  # type: ignore[attr-defined]
STEPS = SubsampledSteps(count=10, tv_bound=0.01, ratio=2.0)
DRAWN = SubsampledRelease(draws=100, tv_bound=0.01, epsilon=1.0, delta=1e-6)
EVENTS: dict[str, Event] = {
    "none": NoEvent(), "steps": STEPS, "draws": DRAWN,
    "draws of everybody": SubsampledRelease(draws=100, tv_bound=1.0, epsilon=1.0, delta=1e-6),
    "release": Release(epsilon=1.0, delta=1e-6), "gaussian": Gaussian(count=4, mu=0.5),
    "selection": PrivateSelection(mu=1.0, law=LAW), "nothing promised": NonPrivate(),
    "gaussian, then steps": Composed(parts=(Gaussian(mu=0.5), STEPS)),
}  # fmt: skip
PURE, GAUSS = Release(epsilon=1e-3), Gaussian(mu=1e-3)
ASKS: dict[str, Any] = {
    "everybody": ("everybody",), "a selection": ("selection",),
    "a draw": ("draws", 1), "a step": ("steps", 1, Fraction(1)),
    "a pure mechanism": ("mechanism", PURE), "a gaussian mechanism": ("mechanism", GAUSS),
}  # fmt: skip
"""What is asked of a meter: a method and its arguments."""
PAYS = {
    "none": set(), "steps": {"a step"}, "draws": {"a draw", "a pure mechanism"},
    "draws of everybody": {"a draw", "everybody", "a pure mechanism"}, "release": {"everybody", "a pure mechanism"},
    "gaussian": {"everybody", "a gaussian mechanism"}, "selection": {"everybody", "a selection"},
    "gaussian, then steps": {"everybody", "a gaussian mechanism", "a step"},
    "nothing promised": {"everybody", "a draw", "a step", "a pure mechanism", "a gaussian mechanism"},
}  # fmt: skip


def asked(meter: Meter, what: str, *given: Any) -> None:
    getattr(meter, what)(*given)


@for_each("event", EVENTS)
@for_each("ask", ASKS)
def test_an_event_pays_for_its_own_kind_and_for_nothing_else(event: str, ask: str) -> None:
    meter = Meter(EVENTS[event])
    if ask in PAYS[event]:
        asked(meter, *ASKS[ask])
        assert not meter.spoilt
    else:
        with pytest.raises(Overdrawn, match="does not pay for"):
            asked(meter, *ASKS[ask])
        assert meter.spoilt


@for_each(
    ("event", "take", "refused"),
    [
        (DRAWN, [("draws", 60)], [("40 are left", "draws", count) for count in (41, 100, 0, -5)]),
        (DRAWN, [("draws", 100)], [("0 are left", "draws", 1)]),
        (STEPS, [("steps", 10, Fraction(2))], [("0 are left", "steps", 1, Fraction(2))]),
        (EVENTS["selection"], [("selection",)], [("selection", "selection")]),
        # By the last bit.
        (STEPS, [("steps", 1, Fraction(2))], [("devi", "steps", 1, Fraction(2) + Fraction(1, 2**200))]),
        # As doubles, 0.3 - 0.1 - 0.1 is below 0.1: three of these cost more.
        (Release(epsilon=0.3, delta=1e-6), [("mechanism", Release(epsilon=0.1, delta=5e-7))] * 2,
         [(r"epsilon 0\.1", "mechanism", Release(epsilon=0.1)),
          ("delta", "mechanism", Release(epsilon=0.01, delta=1e-12))]),
        (EVENTS["gaussian, then steps"], [("mechanism", Gaussian(mu=0.5)), ("steps", 10, Fraction(2))],
         [("is left", "mechanism", Gaussian(mu=1e-9)), ("0 are left", "steps", 1, Fraction(2))]),
        (Gaussian(count=4, mu=0.5), [("mechanism", Gaussian(count=3, mu=0.5))],
         [("is left", "mechanism", Gaussian(mu=0.5000000001))]),
    ],
)  # fmt: skip
def test_what_an_event_pays_for_runs_out_to_the_last_digit_and_a_refused_ask_takes_nothing(event, take, refused):
    meter = Meter(event)
    for ask in take:
        asked(meter, *ask)
    for says, *ask in refused:
        with pytest.raises(Overdrawn, match=says):
            asked(meter, *ask)
    match event:  # all the rest can still be had
        case Release():
            meter.mechanism(Release(epsilon=0.0999))
        case Gaussian():
            meter.mechanism(Gaussian(mu=0.5))


N = 500
COUNT = NoisyCount(0.25)


def people() -> Records:
    features = np.random.default_rng(1).uniform(-1, 1, size=(N, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def access(event: Event, shown: int | None = 0, records: Records | None = None, seed: int = 1) -> Access:
    held = people() if records is None else records
    return Access(event, Reweighing(len(held), 0.5, 0.1).sampler(held), RandomSource.seeded(seed), shown)


def positive(records: Records) -> Any:
    return records.labels > 0


def test_noise_is_drawn_afresh_for_every_release() -> None:
    """Two counts with the same noise would give their difference away without any."""
    given = access(Release(epsilon=50.0))
    found = [given.release(COUNT, positive) for _ in range(200)]
    assert len(set(found)) > 10
    assert found[0] == COUNT.apply(iter([positive(people())]), RandomSource.seeded(1))
    assert abs(float(np.mean(found)) - np.count_nonzero(people().labels > 0)) < 3.0
    drawn = access(SubsampledRelease(draws=200, tv_bound=0.01, epsilon=50.0))
    seen: list[Records] = []
    for _ in range(2):
        drawn.release(COUNT, lambda records: (seen.append(records), positive(records))[1], draws=100)
    assert not np.array_equal(seen[0].features, seen[1].features)


def test_who_catches_the_failure_of_a_look_releases_nothing() -> None:
    """Whether ``of`` fails may depend on a record: that is a bit without noise; after the end nothing is had."""

    def fails(records: Records) -> Any:
        raise ValueError("one of them is whom I looked for")

    looks: list[tuple[Event, Any]] = [
        (Release(epsilon=1.0), lambda given: given.release(COUNT, fails)),
        (Gaussian(mu=1.0), lambda given: given.shares(1.0, 2, fails)),
    ]
    for event, look in looks:
        given = access(event)
        with pytest.raises(ValueError, match="looked for"):
            look(given)
        with pytest.raises(Overdrawn, match="or a mechanism failed"):
            given.close()
        with pytest.raises(Overdrawn, match="has ended"):
            assert given.people


def test_features_are_shown_where_only_labels_are_protected() -> None:
    event = Gaussian(mu=1.0)
    np.testing.assert_array_equal(access(event, None).features(3, 5), people().features[3:8])
    np.testing.assert_array_equal(access(event, 2).features(3, 5), people().features[3:8, :2])  # the rest are classes
    with pytest.raises(Overdrawn, match="records are protected"):
        access(event).features(3, 5)


def test_records_are_shown_where_nothing_is_promised_and_nowhere_else() -> None:
    assert len(access(NonPrivate()).records()) == N
    assert len(access(NonPrivate()).records(7)) == 7
    for ask in (lambda a: a.records(), lambda a: a.records(1), lambda a: a.distinct(1), lambda a: a.source):
        with pytest.raises(Overdrawn):
            ask(access(Release(epsilon=1.0)))


def test_no_public_stream_is_one_that_noise_comes_from() -> None:
    """The streams' names are derived from nowhere in the mechanisms."""

    for kind in CENTRAL:
        text = inspect.getsource(sys.modules[kind.__module__])
        assert not any(f'derive("{name}"' in text for name in PUBLIC_STREAMS)
    given = access(Release(epsilon=1.0))
    assert given.coins("coins").words(4).tolist() == RandomSource.seeded(1).derive("coins").words(4).tolist()
    with pytest.raises(Overdrawn):
        given.coins("level")


def test_mechanisms_are_trusted_by_their_exact_type_only_of_the_curator_and_are_what_was_paid_for() -> None:
    with pytest.raises(TypeError, match="central mechanisms are part of"):
        central(Homemade)
    with pytest.raises(Overdrawn, match="no central mechanism"):
        access(Release(epsilon=1.0)).release(Homemade())
    for kind in CENTRAL:  # frozen, so that their price is that of what is applied
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def item(records: Records) -> Any:
    return (records.labels > 0).astype(np.int64)


def test_weighted_shares_are_paid_for_first_and_take_the_noise_of_the_weights() -> None:
    given = access(Gaussian(count=2, mu=15.0))
    shares, whole = given.shares(15.0, 2, item)
    again, _ = given.shares(15.0, 2, item)
    np.testing.assert_allclose(shares / whole, np.bincount(item(people())) / N, atol=0.01)
    assert not np.array_equal(shares, again)
    with pytest.raises(Overdrawn, match=r"mu\^2 = 0 is left"):
        given.shares(0.001, 2, item)


def test_shares_with_a_law_of_which_nothing_is_known_have_noise_for_all_of_it() -> None:
    """A sampler that was told no bound takes 1, which is good for every law."""
    unknown = Sampler(LocalSample.from_records(people()), Reweighing(N, 0.5, 0.1).density())
    known = Reweighing(N, 0.5, 0.1).sampler(people())
    spread = []
    for sampler in (known, unknown):
        shares, whole = Access(Gaussian(mu=1.0), sampler, RandomSource.seeded(1)).shares(1.0, 512, item)
        spread.append(float(np.std(shares[2:] / whole)))
    # The noise has standard deviation sqrt(2) s; 510 of them tell it to a quarter.
    assert spread == pytest.approx([math.sqrt(2.0) / N, math.sqrt(2.0)], rel=0.25)


@for_each("event", [SubsampledRelease(draws=10, tv_bound=0.01, epsilon=1.0), Release(epsilon=1.0), Gaussian(mu=0.5)])
def test_what_does_not_pay_for_weighted_shares_gets_none(event: Event) -> None:
    given = access(event)
    for ask in (lambda: given.shares(1.0, 2, item), given.close):
        with pytest.raises(Overdrawn):
            ask()


PERSONS_N = 40
SUM = ClippedSum(norm=1.0, width=2, mu=1.0)


def few(last: float = 0.5) -> Records:
    """Return people who differ in the last one's first feature alone."""
    features = np.random.default_rng(3).uniform(-1, 1, size=(PERSONS_N, 2)).astype(np.float32)
    features[-1, 0] = last
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def features(records: Records) -> Any:
    return records.features.astype(np.float64)


def fails(records: Records) -> Any:
    if (records.features[:, 0] > 0.4).any():
        raise RuntimeError(f"what is in here: {records.features}")
    return features(records)


def in_place(records: Records) -> Any:
    records.features[:] *= 1000
    records.labels[:] = 1
    return features(records)


def augmented(records: Records) -> Any:
    return np.repeat(features(records), 1000, axis=0)


MISTAKES: dict[str, Any] = {
    "a thousand rows of each record": augmented,
    "centred by the mean of what it is given": lambda r: features(r) - features(r).mean(axis=0),
    "without the rows that are odd": lambda r: features(r)[r.features[:, 0] < 0.4], "fails where a row is odd": fails,
    "not numbers": lambda r: np.where(r.features > 0.4, np.nan, features(r) * 1e300), "in place": in_place,
}  # fmt: skip


@for_each("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_one_person_moves_a_sum_by_what_was_charged_and_nobody_elses_row(mistake: Any) -> None:
    """The sum is of the values as the mechanism clips them: two samples that differ in a record, the same noise."""
    outcomes = []
    for last in (-0.5, 0.3, 0.5, 0.9):
        given = access(Gaussian(mu=1.0), records=few(last))
        outcomes.append(given.release(SUM, mistake))
        given.close()
    apart = max(float(np.linalg.norm(one - other)) for one in outcomes for other in outcomes)
    assert apart <= 2.0 * SUM.norm * (1.0 + 1e-9)
    made = person_by_person(mistake, SUM, 2, np.dtype(np.float32))
    one, other = made(few(-0.5)), made(few(0.9))
    assert one.shape == other.shape == (PERSONS_N, 2)
    np.testing.assert_array_equal(one[:-1], other[:-1])


def test_a_thousand_rows_of_each_record_have_the_noise_that_one_row_has() -> None:
    """Charged as one release of mu = 1: the noise is that of rows of norm 1, not of a thousandth of it."""
    runs = [
        [access(Gaussian(mu=1.0), records=few(), seed=s).release(SUM, of) for s in range(60)]
        for of in (features, augmented)
    ]
    one, thousand = (float(np.std(np.array(run), axis=0).mean()) for run in runs)
    assert thousand == pytest.approx(2.0, rel=0.4)  # 2 norm / mu; seeded
    assert thousand == pytest.approx(one, rel=1e-6)


def test_no_person_is_left_out_or_counted_twice_by_any_mechanism() -> None:
    known, kind = few(), np.dtype(np.float32)

    def made(mechanism: Any, of: Any) -> Any:
        return person_by_person(of, mechanism, 2, kind)(known)

    cells, labels = NoisyHistogram(1.0, 4), known.labels
    np.testing.assert_array_equal(made(NoisyCount(1.0), lambda r: r.labels > 0), labels > 0)
    np.testing.assert_array_equal(made(MostFrequent(1.0, 2), lambda r: r.features > 0), known.features > 0)
    np.testing.assert_array_equal(made(LossSum(4, 1.0), lambda r: np.full(len(r), 3)), np.full(PERSONS_N, 3))
    np.testing.assert_array_equal(made(LossSum(4, 1.0), lambda r: np.full(1000, 2)), np.full(PERSONS_N, 4))
    np.testing.assert_array_equal(made(SUM, augmented), made(SUM, lambda r: 1000.0 * features(r)))
    np.testing.assert_array_equal(made(cells, lambda r: (np.array([1]), r.labels)), [np.ones(PERSONS_N), labels])
    for wild in (-7, 4, 1e30, math.nan, math.inf):
        cell, number = made(cells, lambda r, c=wild: (np.array([c if r.features[0, 0] else 0]), np.array([9])))
        assert (cell == -1).all()
        assert (np.abs(number) <= 1).all()
    items = made(ItemOfPerson(), lambda r: np.array([3, 3]) if r.features[0, 0] > 0.4 else np.array([2]))
    assert set(items.tolist()) == {-1, 2}


@for_each(
    ("mechanism", "of"),  # without a mechanism: of shares
    [
        (NoisyCount(1.0), lambda r: np.ones(1000)), (NoisyCount(1.0), lambda r: "yes"),
        (NoisyHistogram(1.0, 4), lambda r: np.array([1])),
        (NoisyHistogram(1.0, 4), lambda r: (np.arange(4), np.ones(4))),
        (MostFrequent(1.0, 2), lambda r: np.ones((3, 2))), (MostFrequent(1.0, 2), lambda r: np.ones((1, 3))),
        (SUM, lambda r: np.ones(2)), (SUM, lambda r: None), (ClassMoments(1.0, 2, 1.0), lambda r: r),
        (None, lambda r: np.zeros((len(r), 3))), (None, lambda r: np.zeros(1000)), (None, lambda r: None),
    ],
)  # fmt: skip
def test_a_function_that_makes_no_value_of_any_person_is_refused_and_nothing_leaves(mechanism: Any, of: Any) -> None:
    """It is tried on a record of zeros, so the refusal depends on no person and may say what was found."""
    given = access(Gaussian(mu=1.0) if mechanism is None else mechanism.price, records=few())
    with pytest.raises(Overdrawn, match="tried on a record of zeros"):
        given.shares(1.0, 3, of) if mechanism is None else given.release(mechanism, of)
    with pytest.raises(Overdrawn):
        given.close()


def test_a_mechanism_without_a_neutral_value_is_refused_whether_or_not_a_function_fails_on_somebody() -> None:
    class WithoutNeutral(ValueOfPerson[Any]):
        def person(self, value: Any) -> Any:
            return value

    for of in (features, fails):
        with pytest.raises(NoValue, match="takes the curator's own functions only"):
            person_by_person(of, WithoutNeutral(), 2, np.dtype(np.float32))


def test_whether_a_function_fails_on_somebody_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    for last in (0.3, 0.9):
        given = access(Gaussian(mu=1.0), records=few(last))
        assert given.release(SUM, fails).shape == (2,)
        given.close()
    assert caplog.text == ""


def test_the_curators_own_functions_are_given_blocks_and_nobody_elses_are() -> None:
    assert is_own(unchanged)
    assert is_own(partial(unchanged))
    assert not any(is_own(of) for of in (features, lambda r: r, partial(features), np.asarray, len))
    seen: list[int] = []
    access(Release(epsilon=1.0), records=few()).release(
        NoisyCount(1.0), lambda r: (seen.append(len(r)), r.labels > 0)[1]
    )
    assert seen == [1] * (PERSONS_N + 1)
