"""The access: fresh noise for every release, nothing after the end, and where its guarantee ends."""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import numpy as np
import pytest

from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, NonPrivate, Release, SubsampledRelease
from curator.mechanisms.base import CENTRAL, Mechanism, central
from curator.mechanisms.counts import NoisyCount
from curator.metering.access import PUBLIC_STREAMS, Access
from curator.metering.meter import Overdrawn
from curator.sample.base import LocalSample
from curator.weights.reweighing import Reweighing
from curator.weights.sampling import Sampler
from tests.curator.metering.greedy import Homemade
from tests.tiers import for_each

N = 500
COUNT = NoisyCount(0.25)


def people() -> Records:
    features = np.random.default_rng(1).uniform(-1, 1, size=(N, 3)).astype(np.float32)
    return Records(features, np.where(features[:, 0] > 0, 1, -1).astype(np.int8))


def access(event: Event, shown: int | None = 0) -> Access:
    sampler = Reweighing(N, 0.5, 0.1).sampler(people())
    return Access(event, sampler, RandomSource.seeded(1), shown)


def positive(records: Records) -> Any:
    return records.labels > 0


def test_noise_is_drawn_afresh_for_every_release() -> None:
    """Two counts with the same noise would give their difference away without any."""
    given = access(Release(epsilon=50.0))
    found = [given.release(COUNT, positive) for _ in range(200)]
    assert len(set(found)) > 10
    assert abs(float(np.mean(found)) - np.count_nonzero(people().labels > 0)) < 3.0
    drawn = access(SubsampledRelease(draws=200, tv_bound=0.01, epsilon=50.0))
    seen: list[Records] = []
    for _ in range(2):
        drawn.release(COUNT, lambda records: (seen.append(records), positive(records))[1], draws=100)
    assert not np.array_equal(seen[0].features, seen[1].features)


def test_a_release_is_the_mechanism_on_the_sample_and_its_source() -> None:
    source = RandomSource.seeded(1)
    assert access(Release(epsilon=0.25)).release(COUNT, positive) == COUNT.apply(iter([positive(people())]), source)


def test_nothing_is_had_after_the_end() -> None:
    given = access(Release(epsilon=1.0))
    given.close()
    with pytest.raises(Overdrawn):
        given.release(COUNT, positive)


def test_values_that_were_kept_back_are_not_computed_later() -> None:
    """A mechanism takes its values while it is applied: ``of`` is called for no record before or after."""
    calls: list[int] = []

    def of(records: Records) -> Any:
        calls.append(len(records))
        return positive(records)

    given = access(Release(epsilon=0.25))
    given.release(COUNT, of)
    assert calls == [1] * (N + 1)  # each record by itself, after a trial on a record of zeros


def test_who_catches_the_failure_of_a_look_releases_nothing() -> None:
    """Whether ``of`` fails may depend on a record: that is a bit without noise."""

    def fails(records: Records) -> Any:
        raise ValueError("one of them is whom I looked for")

    given = access(Release(epsilon=1.0))
    with pytest.raises(ValueError, match="looked for"):
        given.release(COUNT, fails)
    with pytest.raises(Overdrawn, match="or a mechanism failed"):
        given.close()


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


def test_mechanisms_are_trusted_by_their_exact_type_and_only_of_the_curator() -> None:
    assert Homemade not in CENTRAL
    with pytest.raises(TypeError, match="central mechanisms are part of"):
        central(Homemade)
    with pytest.raises(Overdrawn, match="no central mechanism"):
        access(Release(epsilon=1.0)).release(Homemade())


@for_each("kind", sorted(CENTRAL, key=str), ids=str)
def test_mechanisms_are_frozen_so_that_their_price_is_that_of_what_is_applied(kind: type[Mechanism[Any, Any]]) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def item(records: Records) -> Any:
    return (records.labels > 0).astype(np.int64)


def test_weighted_shares_are_paid_for_first_and_take_the_noise_of_the_weights() -> None:
    given = access(Release(epsilon=30.0))
    shares, whole = given.shares(15.0, 2, item)
    again, _ = given.shares(15.0, 2, item)
    np.testing.assert_allclose(shares / whole, np.bincount(item(people())) / N, atol=0.01)
    assert not np.array_equal(shares, again)
    with pytest.raises(Overdrawn, match="0 and 0 are left"):
        given.shares(0.0025, 2, item)


def test_shares_with_a_law_of_which_nothing_is_known_have_noise_for_all_of_it() -> None:
    """A sampler that was told no bound takes 1, which is good for every law."""
    unknown = Sampler(LocalSample.of(people()), Reweighing(N, 0.5, 0.1).density())
    known = Reweighing(N, 0.5, 0.1).sampler(people())
    spread = []
    for sampler in (known, unknown):
        shares, whole = Access(Release(epsilon=1.0), sampler, RandomSource.seeded(1)).shares(1.0, 512, item)
        spread.append(float(np.std(shares[2:] / whole)))
    # Two-sided geometric noise of scale 2 s has standard deviation sqrt(2) 2 s; 510 of them tell it to a quarter.
    assert spread == pytest.approx([math.sqrt(8.0) / N, math.sqrt(8.0)], rel=0.25)


@for_each("event", [SubsampledRelease(draws=10, tv_bound=0.01, epsilon=1.0), Gaussian(mu=1.0), Release(epsilon=0.5)])
def test_what_does_not_pay_for_weighted_shares_gets_none(event: Event) -> None:
    given = access(event)
    with pytest.raises(Overdrawn):
        given.shares(1.0, 2, item)
    with pytest.raises(Overdrawn):
        given.close()


def test_shares_of_items_that_cannot_be_made_release_nothing_later() -> None:
    def fails(records: Records) -> Any:
        raise ValueError("one of them")

    given = access(Release(epsilon=2.0))
    with pytest.raises(ValueError, match="one of them"):
        given.shares(1.0, 2, fails)
    with pytest.raises(Overdrawn):
        given.close()
