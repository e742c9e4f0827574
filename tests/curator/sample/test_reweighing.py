"""The curator's weights: lazy, projected onto kappa-dense distributions, exact for 0/1 losses."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.core.errors import BadInput, BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import HypothesisLoss
from common.local.records import Records
from curator.sample.base import LocalSample
from curator.sample.reweighing import HEADROOM, Reweighing, project
from tests.curator.given import cumulative_losses, hypothesis, law, losses_of, reweighed, split
from tests.tiers import for_each

WRONG = Constant(label=1)


def bisected(log_weights, budget):
    """Return min(c w, 1) by bisecting log c: slow and plain."""
    low, high = -np.max(log_weights) - 100.0, -np.min(log_weights) + 100.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.exp(np.minimum(log_weights + middle, 0.0)).sum() < budget:
            low = middle
        else:
            high = middle
    return np.exp(np.minimum(log_weights + high, 0.0))


@given(
    st.lists(st.floats(-2000.0, 2000.0), min_size=2, max_size=40),
    st.floats(0.01, 1.0),
    st.sampled_from([0.01, 0.12, 1.0, 7.0]),
)
def test_projection_agrees_with_bisection_and_underflows_nowhere(cumulative_losses, kappa, eta):
    cumulative_losses = np.array(cumulative_losses)
    budget = max(kappa * len(cumulative_losses), 1.0)
    cut = project(np.sort(cumulative_losses), np.broadcast_to(np.int64(1), cumulative_losses.shape), eta, budget)
    found = np.exp(eta * np.minimum(cumulative_losses - cut, 0.0))
    np.testing.assert_allclose(found, bisected(eta * cumulative_losses, budget), rtol=1e-6, atol=1e-12)
    assert found.sum() == pytest.approx(budget, rel=1e-6)


def grained(generator, shape):
    return generator.integers(0, 1025, shape) / 1024


@given(st.integers(0, 1 << 30), st.floats(0.03, 1.0), st.floats(0.05, 3.0), st.booleans())
@settings(max_examples=60)
def test_nobody_weighs_more_than_the_cap_nor_than_the_schedule(seed, kappa, eta, binary):
    table = grained(np.random.default_rng(seed), (12, 400)) ** 2
    sample = LocalSample.of(losses_of((table > 0.4).astype(np.uint8) if binary else table))
    weights = Reweighing(400, kappa, eta)
    for t in range(12):
        chance = law(weights, sample)
        heaviest = Fraction(float(chance.max())) / sum(map(Fraction, chance.tolist()))
        assert heaviest <= Fraction(weights.sampling_bound())
        assert heaviest * Fraction(kappa) * 400 <= 1 or kappa == 1.0
        weights.update(sample, HypothesisLoss(hypothesis(t, 12, real=not binary), "zero-one" if binary else "hinge"))


@given(st.integers(0, 1 << 30), st.booleans())
@settings(max_examples=60)
def test_neighbouring_samples_move_all_other_people_in_one_direction(seed, binary):
    # docs/corrections.md, "Coupling": so TV(mu, mu') over records is max(mu_i, mu'_i) <= the sampling bound.
    generator = np.random.default_rng(seed)
    losses = grained(generator, (20, 200))
    other = losses.copy()
    other[:, 0] = grained(generator, 20)
    if binary:
        losses, other = (losses < 0.4).astype(np.uint8), (other < 0.4).astype(np.uint8)
    mus = []
    for table in (losses, other):
        weights, sample = reweighed(table, 0.1, 0.7)
        chance = law(weights, sample)
        mus.append(chance / chance.sum())
    moves = (mus[0] - mus[1])[1:]
    assert moves.min() >= -1e-15 or moves.max() <= 1e-15
    apart = max(moves.clip(0).sum(), (-moves).clip(0).sum(), mus[0][0], mus[1][0])
    assert apart <= weights.sampling_bound() * (1 + 1e-12)


@for_each(("kappa", "eta", "rounds"), [(0.1, 0.7, 3), (0.3, 4.0, 4), (None, 2.0, 3), (0.9, 0.05, 2)])
def test_laws_as_doubles_are_as_near_to_the_exact_ones_as_their_bound_says(kappa, eta, rounds):
    """In L1 norm, for either of two neighbours, by what :meth:`share_bound` has above the bound of exact laws."""
    table = grained(np.random.default_rng(7), (rounds, 200))
    weights, sample = reweighed(table, kappa, eta)
    chance = law(weights, sample)
    scores = cumulative_losses(sample).astype(np.int64).tolist()
    with mpmath.workdps(60):
        held = [mpmath.exp(mpmath.mpf(eta) * (score - max(scores)) / 1024) for score in scores]
        if kappa is not None:
            held = capped(held, mpmath.mpf(min(kappa * 200 * (1.0 + HEADROOM), 200.0)))
        wanted = [weight / sum(held) for weight in held]
        total = mpmath.fsum(map(mpmath.mpf, chance.tolist()))
        apart = sum(abs(mpmath.mpf(p) / total - q) for p, q in zip(chance.tolist(), wanted, strict=True))
    assert 0.0 < apart <= weights.share_bound() - weights.sampling_bound() < 1e-9


def capped(weights, budget):
    """Return min(c w, 1), c such that these add up to the budget if any c with a weight of 1 does; exactly."""
    order = sorted(weights)
    for k in range(len(order)):
        factor = (budget - k) / sum(order[: len(order) - k])
        if factor * order[-1 - k] <= 1:
            return [min(factor * weight, mpmath.mpf(1)) for weight in weights]
    raise AssertionError("a budget is at most the number of people")


def test_reweighing_the_projected_weights_would_break_that():
    # The broken twin is not lazy: it multiplies what it projected. Found by search among random losses.
    losses = (np.random.default_rng(1991).random((6, 8)) < 0.5).astype(np.float64)
    other = losses.copy()
    other[:, 0] = 1.0 - losses[:, 0]

    def drift(lazy):
        mus = []
        for sample in (losses, other):
            weights = np.zeros(8)
            for row in sample:
                weights -= 2.0 * (1.0 - row)
                weights = weights if lazy else np.log(bisected(weights, 3.0))
            mus.append(bisected(weights, 3.0) / 3.0)
        return 0.5 * (np.abs(mus[0] - mus[1])[1:].sum() + mus[0][0] + mus[1][0])

    assert drift(lazy=True) <= 1 / 3 + 1e-9
    assert drift(lazy=False) > 1.9 / 3


def test_counts_turn_into_1024ths_with_the_first_real_loss():
    records = Records(np.full((20, 1), 0.5, dtype=np.float32), np.full(20, -1, dtype=np.int8))
    sample, weights = split(records, 5), Reweighing(20, 1.0, 1.0)
    plane = Linear(weights=(1.0,), threshold=0.75)  # right, by a margin of 1/4
    for rule, loss in ((WRONG, "zero-one"), (plane, "hinge"), (WRONG, "zero-one"), (WRONG, "hinge")):
        weights.update(sample, HypothesisLoss(rule, loss))
    np.testing.assert_array_equal(cumulative_losses(sample), np.full(20, 3 * 1024 + 768))
    assert weights.density().eta == 1.0 / 1024


def test_rounded_losses_cost_at_most_a_thousandth_of_regret_a_round():
    # sum_t <mu_t - mu*, loss_t> <= K/eta + eta T/8 holds for the rounded losses; for the true ones add 2^-10 T.
    generator, n, eta, rounds = np.random.default_rng(3), 200, 0.3, 60
    losses = generator.random((rounds, n)) ** np.linspace(0.2, 4.0, n)
    sample = LocalSample.of(Records((1.0 - losses.T).astype(np.float32).copy(), np.ones(n, dtype=np.int8)))
    weights = Reweighing(n, None, eta)
    gained = 0.0
    for t in range(rounds):
        chance = law(weights, sample)
        gained += float(chance @ losses[t]) / chance.sum()
        weights.update(sample, HypothesisLoss(hypothesis(t, rounds, real=True), "hinge"))
    most = losses.sum(axis=0).max()
    assert most - gained <= np.log(n) / eta + eta * rounds / 8 + rounds * 2.0**-10
    assert np.abs(cumulative_losses(sample) / 1024 - losses.sum(axis=0)).max() <= rounds * (2.0**-11 + 1e-6)


def test_scores_never_outgrow_their_32_bits():
    weights = Reweighing(20, 1.0, 0.1)
    weights.updates, weights._parts = (1 << 22) - 1, 1024
    with pytest.raises(BadInput, match="hold 4194303 reweighs"):
        weights.update(LocalSample.of(losses_of(np.zeros((1, 20), dtype=np.uint8))), HypothesisLoss(WRONG))


@for_each("real", [False, True])
def test_restored_weights_go_on_as_if_never_interrupted(real):
    table, loss = grained(np.random.default_rng(5), (10, 100)), "hinge" if real else "zero-one"
    table = table if real else (table < 0.4).astype(np.uint8)
    through, other = LocalSample.of(losses_of(table)), Reweighing(100, 0.2, 0.5)
    one, stopped = Reweighing(100, 0.2, 0.5), LocalSample.of(losses_of(table))
    for t in range(10):
        asked = HypothesisLoss(hypothesis(t, 10, real=real), loss)
        one.update(through, asked)
        other.update(stopped, asked)
        stored = [part.copy() for part in stopped.cumulative_losses()]
        stopped = LocalSample.of(losses_of(table))
        other = Reweighing.restore(stopped, 0.2, 0.5, [asked] * (t + 1), stored)
    np.testing.assert_array_equal(law(one, through), law(other, stopped))
    assert one.sampling_bound() == other.sampling_bound()


def test_sampling_bound_follows_the_schedule():
    weights = Reweighing(1000, 0.1, 0.5)
    sample = LocalSample.of(losses_of(np.zeros((1, 1000), dtype=np.uint8)))
    assert weights.sampling_bound() == pytest.approx(1 / 1000)
    for t in range(1, 12):
        weights.update(sample, HypothesisLoss(WRONG))
        assert weights.sampling_bound() == pytest.approx(min(np.exp(t / 2) / (999 + np.exp(t / 2)), 0.01))
    assert Reweighing(1000, None, 0.5).sampling_bound() >= 1 / 1000
    assert Reweighing(1, None, 0.5).sampling_bound() == 1.0


@for_each(
    ("n", "kappa", "eta", "says"),
    [
        (0, None, 0.1, "at least one record"),
        (100, 0.1, 0.1, "kappa n must exceed 10"),
        (100, 0.0, 0.1, "kappa must be in"),
        (100, 1.5, 0.1, "kappa must be in"),
        (100, 0.5, 0.0, "eta must be positive"),
        (100, 0.5, np.inf, "eta must be positive"),
    ],
)
def test_parameters_outside_their_range_are_refused(n, kappa, eta, says):
    with pytest.raises(BadScenario, match=says):
        Reweighing(n, kappa, eta)
