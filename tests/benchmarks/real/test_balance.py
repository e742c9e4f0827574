"""Weights of survey statisticians: they match what they promise, find the right ones, and stay bounded."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.real import balance
from benchmarks.real.balance import DESIGN_EFFECT, Margins, design_effect, odds, raked
from benchmarks.real.methods import logistic
from common.local.records import Records


def population(count: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(count, 4)).astype(np.float32)
    score = 4.0 * features[:, 0] - 3.0 * features[:, 1] - 0.5 + rng.logistic(size=count)
    return Records(features, np.where(score > 0, np.int8(1), np.int8(-1)))


def chosen(people: Records, readiness: np.ndarray, seed: int) -> tuple[Records, np.ndarray]:
    """Return who volunteers, each with a chance of its own, and the weights that undo it, of mean 1."""
    kept = np.flatnonzero(np.random.default_rng(seed).uniform(size=len(people)) < readiness)
    weights = 1.0 / readiness[kept]
    return people.take(kept), weights / weights.mean()


def test_raked_volunteers_have_the_margins_and_raking_finds_the_weights_of_a_selection_by_them() -> None:
    people = population(40_000, 1)
    # Selected by an exponential of the margins: then, and only then, the raked weights are the right ones.
    tilt = np.exp(-1.5 * people.features[:, 0] - 1.0 * (people.labels > 0))
    volunteers, right = chosen(people, tilt, 2)
    weights = raked(volunteers, Margins.of(population(40_000, 3)))
    assert weights.mean() == pytest.approx(1.0)
    columns = np.column_stack([volunteers.features, volunteers.labels > 0])
    assert np.average(columns, axis=0, weights=weights) == pytest.approx(Margins.of(people).means, abs=0.01)
    assert np.corrcoef(weights, right)[0, 1] > 0.99


def test_raking_repairs_a_model_whose_label_shares_were_shifted() -> None:
    people, others = population(40_000, 4), population(20_000, 5)
    volunteers, _ = chosen(people, np.where(people.labels > 0, 0.1, 1.0), 6)
    plain = logistic(volunteers).mistakes(others).mean()
    repaired = logistic(volunteers, raked(volunteers, Margins.of(others))).mistakes(others).mean()
    optimum = logistic(others).mistakes(others).mean()
    assert plain > optimum + 0.05
    assert repaired < optimum + 0.01


def test_inverse_propensity_finds_the_weights_of_a_selection_by_features() -> None:
    people = population(40_000, 7)
    volunteers, right = chosen(people, np.exp(-2.0 * people.features[:, 1]), 8)
    weights = odds(volunteers.features, population(40_000, 9).features)
    assert weights.mean() == pytest.approx(1.0)
    assert np.corrcoef(weights, right)[0, 1] > 0.98


def test_margins_that_nobody_has_do_not_let_a_few_volunteers_stand_for_all() -> None:
    volunteers = population(2_000, 10)
    near = volunteers.take(np.flatnonzero(volunteers.features[:, 0] < 0.2))
    away = volunteers.take(np.flatnonzero(volunteers.features[:, 0] > 0.8))
    weights = raked(near, Margins.of(away))
    assert 1.0 < design_effect(weights) <= DESIGN_EFFECT
    assert odds(near.features, away.features).max() <= balance.CAP * 2.0


def test_a_feature_that_all_volunteers_share_is_left_out() -> None:
    volunteers, others = population(3_000, 11), population(3_000, 12)
    same = np.ones((len(volunteers), 1), dtype=np.float32)
    here = Records(np.hstack([volunteers.features, same]), volunteers.labels)
    there = Records(np.hstack([others.features, 0 * same]), others.labels)
    expected = raked(volunteers, Margins.of(others))
    np.testing.assert_allclose(raked(here, Margins.of(there)), expected, atol=1e-9)
    np.testing.assert_allclose(
        odds(here.features, there.features), odds(volunteers.features, others.features), atol=1e-9
    )
    assert logistic(here).weights[-1] == 0.0
    np.testing.assert_array_equal(logistic(here).predict(there.features), logistic(volunteers).predict(others.features))


def test_the_design_effect_is_kishs() -> None:
    assert design_effect(np.ones(7)) == 1.0
    assert design_effect(np.array([1.0, 0.0, 0.0, 0.0])) == 4.0
