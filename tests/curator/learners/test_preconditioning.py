"""A first look at records: what it pays, what it shows of features, and that half-spaces of z are half-spaces of x."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from common.core.arrays import Floats
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from
from curator.learners.half_spaces import Discriminant
from curator.learners.preconditioning import Preconditioner, precondition
from curator.mechanisms.access import Access
from curator.sample.reweighing import Reweighing, Sampler
from tests.tiers import for_each

MIDDLE = np.array([0.7, 0.6, 0.5, 0.5, 0.9])
SPREAD = np.array([0.05, 0.04, 0.02, 0.05, 0.0])
"""Records lie far from 0 and close together, as those of tables do; the last feature never varies."""


def people(n: int, seed: int = 1) -> Records:
    """Return people whose first two features tell the label."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n, 5))
    labels = np.where(noise[:, 0] - noise[:, 1] + 0.5 * rng.normal(size=n) > 0.3, 1, -1).astype(np.int8)
    return Records((MIDDLE + SPREAD * noise).astype(np.float32), labels)


def drawn(records: Records) -> Sampler:
    return Reweighing(len(records), None, 1.0).sampler(records)


def looked(records: Records, **settings: float) -> Preconditioner:
    learner = Discriminant(**{"norm": 2.0, "mu": 0.3, **settings})
    return precondition(Access(learner.event(1.0), drawn(records), RandomSource.seeded(1)), learner)


@for_each("mu", [1e-4, 0.1, 0.2261, 3.0, 100.0])
@for_each("share", [0.0, 1e-6, 0.15, 0.5, 0.9])
def test_the_look_and_what_follows_cost_what_was_declared_and_no_less(mu: float, share: float) -> None:
    """Exactly, as the meter adds: mu^2 of releases on the same data add up."""
    first, rest = Discriminant(mu=mu, norm=1.0, precondition=share).shares
    spent = Fraction(first) ** 2 + Fraction(rest) ** 2
    assert (1 - Fraction(1, 10**9)) * Fraction(mu) ** 2 < spent <= Fraction(mu) ** 2
    assert first**2 == pytest.approx(share * mu**2)


def test_the_half_space_of_records_says_what_that_of_z_says() -> None:
    seen, records = looked(people(2000)), people(500, 7)
    weights = np.array([1.0, -2.0, 0.5, 0.0, 0.3])
    shown = seen.of(records)
    np.testing.assert_array_equal(shown.labels, records.labels)
    about = seen.about(weights, 0.25)
    assert about.margins(records.features) == pytest.approx(seen.shrink * shown.features @ weights - 0.25, abs=2e-3)


def test_what_varies_is_brought_to_one_scale_and_what_does_not_is_not_enlarged() -> None:
    """With noise that decides nothing: sqrt(v)/(v + .1 avg) is below 1.6/sqrt(avg), where 1/sqrt(v) has no bound."""
    seen = looked(people(20_000), mu=50.0)
    assert seen.mean == pytest.approx(MIDDLE, abs=0.01)
    assert seen.scale[:4] * SPREAD[:4] == pytest.approx(1.0, abs=0.35)
    assert seen.scale.max() < 1.6 / np.sqrt(np.square(SPREAD).mean())
    lengths = np.linalg.norm(seen.of(people(20_000)).features, axis=1)
    assert 0.5 < np.mean(lengths > seen.radius) < 0.8


@for_each("features", [np.ones((50, 3)), np.zeros((1, 3)), np.full((9, 3), np.nan), np.full((9, 3), 1e38)])
@for_each("mu", [1e-5, 1.0, 100.0])
def test_any_records_give_a_radius_and_a_half_space(features: Floats, mu: float) -> None:
    records = Records(features.astype(np.float32), np.ones(len(features), dtype=np.int8))
    seen = looked(records, mu=mu)
    assert np.isfinite(seen.mean).all()
    assert 0.0 < seen.radius < np.inf
    assert (seen.scale > 0.0).all()
    found: Any = learn_from(Discriminant(mu=mu, norm=2.0), drawn(records), RandomSource.seeded(2))
    assert np.isfinite([*found.weights, found.threshold]).all()


def test_people_who_lie_close_together_far_from_zero_are_told_apart() -> None:
    """Without the look nearly all of the noise is for room in which nobody is."""
    others, ranked = people(20_000, 9), np.zeros(2)
    for seed in range(6):
        for place, share in enumerate((0.0, 0.15)):
            learner = Discriminant(mu=0.25, norm=2.0, precondition=share)
            found = learn_from(learner, drawn(people(1500, seed)), RandomSource.seeded(seed))
            ranked[place] += roc_auc_score(others.labels, found.margins(others.features)) / 6
    assert ranked[1] > 0.9
    assert ranked[0] < ranked[1] - 0.15


def test_weights_of_a_referee_change_nothing_that_it_learns() -> None:
    """The sample as it is: a reweighed record counts once, so the sensitivity holds whatever was reweighed."""
    records = people(400)
    heavy = Reweighing(400, 0.25, 5.0)
    learner = Discriminant(mu=1.0, norm=2.0)
    plain = learn_from(learner, drawn(records), RandomSource.seeded(3))
    sampler = heavy.sampler(records)
    assert learn_from(learner, sampler, RandomSource.seeded(3)) == plain
