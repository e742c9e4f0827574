"""The curator's weights: lazy, projected onto kappa-dense distributions, exact for 0/1 losses."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import BadData, BadScenario
from curator.reweighing import Reweighing, project


def projected(weights, kappa, eta=1.0):
    """Return mu of the projection, by the fast code."""
    scores = np.log(np.asarray(weights, dtype=np.float64)) / eta
    ones = np.broadcast_to(np.int64(1), scores.shape)
    cut = project(np.sort(scores), ones, eta, kappa * len(weights))
    return np.exp(eta * np.minimum(scores - cut, 0.0)) / (kappa * len(weights)), np.exp(-eta * cut)


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


@pytest.mark.parametrize(
    ("weights", "kappa", "mu", "c"),
    [
        ([0.25] * 4, 0.25, [0.25] * 4, 1.0),
        ([0.4, 0.04, 0.02, 0.01, 0.01], 0.4, [0.5, 0.25, 0.125, 0.0625, 0.0625], 12.5),
        ([0.5, 0.25, 0.125, 0.125], 0.5, [0.5, 0.25, 0.125, 0.125], 2.0),
        ([0.5, 0.25, 0.125, 0.125], 1.0, [0.25] * 4, 8.0),
    ],
)
def test_projection_known_answers(weights, kappa, mu, c):
    found, scale = projected(weights, kappa)
    np.testing.assert_allclose(found, mu, rtol=1e-12)
    assert scale == pytest.approx(c, rel=1e-12)


@given(
    st.lists(st.floats(-2000.0, 2000.0), min_size=2, max_size=40),
    st.floats(0.01, 1.0),
    st.sampled_from([0.01, 0.12, 1.0, 7.0]),
)
@settings(deadline=None)
def test_projection_agrees_with_bisection_and_underflows_nowhere(scores, kappa, eta):
    scores = np.array(scores)
    budget = max(kappa * len(scores), 1.0)
    cut = project(np.sort(scores), np.broadcast_to(np.int64(1), scores.shape), eta, budget)
    found = np.exp(eta * np.minimum(scores - cut, 0.0))
    np.testing.assert_allclose(found, bisected(eta * scores, budget), rtol=1e-6, atol=1e-12)
    assert found.sum() == pytest.approx(budget, rel=1e-6)


@given(st.integers(0, 1 << 30), st.floats(0.03, 1.0), st.floats(0.01, 3.0), st.integers(0, 30))
@settings(deadline=None, max_examples=60)
def test_counted_losses_and_real_losses_give_the_same_distribution(seed, kappa, eta, rounds):
    losses = np.random.default_rng(seed).random((rounds, 400)) < 0.3
    counted, real = Reweighing(400, kappa, eta), Reweighing(400, kappa, eta)
    for row in losses:
        counted.update(row.astype(np.uint8))
        real.update(row.astype(np.float64))
    everyone = np.arange(400)
    np.testing.assert_allclose(counted.density().relative(everyone), real.density().relative(everyone), rtol=1e-9)


@given(st.integers(0, 1 << 30), st.floats(0.03, 1.0), st.floats(0.05, 3.0), st.booleans())
@settings(deadline=None, max_examples=60)
def test_nobody_weighs_more_than_the_cap_nor_than_the_schedule(seed, kappa, eta, binary):
    generator = np.random.default_rng(seed)
    weights = Reweighing(400, kappa, eta)
    for _ in range(12):
        chance = weights.density().relative(np.arange(400))
        heaviest = Fraction(float(chance.max())) / sum(map(Fraction, chance.tolist()))
        assert heaviest <= Fraction(weights.sampling_bound())
        assert heaviest * Fraction(kappa) * 400 <= 1 or kappa == 1.0
        losses = generator.random(400) ** 3
        weights.update((losses > 0.5).astype(np.uint8) if binary else losses)


@given(st.integers(0, 1 << 30), st.booleans())
@settings(deadline=None, max_examples=60)
def test_neighbouring_samples_move_all_other_people_in_one_direction(seed, binary):
    # Errata, "Coupling": so TV(mu, mu') over records is max(mu_i, mu'_i) <= the sampling bound.
    generator = np.random.default_rng(seed)
    losses = generator.random((20, 200))
    other = losses.copy()
    other[:, 0] = generator.random(20)
    if binary:
        losses, other = (losses < 0.4).astype(np.uint8), (other < 0.4).astype(np.uint8)
    mus = []
    for sample in (losses, other):
        weights = Reweighing(200, 0.1, 0.7)
        for row in sample:
            weights.update(row)
        chance = weights.density().relative(np.arange(200))
        mus.append(chance / chance.sum())
    moves = (mus[0] - mus[1])[1:]
    assert moves.min() >= -1e-15 or moves.max() <= 1e-15
    apart = max(moves.clip(0).sum(), (-moves).clip(0).sum(), mus[0][0], mus[1][0])
    assert apart <= weights.sampling_bound() * (1 + 1e-12)


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


def test_multiplicative_weights_by_hand():
    weights = Reweighing(30, None, np.log(2.0))
    for wrong in (0, 0, 1):
        losses = np.zeros(30, dtype=np.uint8)
        losses[wrong] = 1
        weights.update(losses)
    np.testing.assert_allclose(weights.density().relative(np.arange(3)), [1.0, 0.5, 0.25])


def test_real_losses_are_clamped_and_nan_counts_as_zero():
    weights = Reweighing(20, None, 1.0)
    losses = np.zeros(20)
    losses[:5] = [np.nan, -np.inf, np.inf, 7.0, 0.25]
    weights.update(losses)
    np.testing.assert_array_equal(weights.state()[:6], [0.0, 0.0, 1.0, 1.0, 0.25, 0.0])


def test_counts_turn_real_with_the_first_real_loss():
    weights = Reweighing(20, 1.0, 1.0)
    weights.update(np.ones(20, dtype=np.uint8))
    weights.update(np.full(20, 0.5, dtype=np.float32))
    weights.update(np.ones(20, dtype=bool))
    np.testing.assert_array_equal(weights.state(), np.full(20, 2.5))


@pytest.mark.parametrize(("most", "wider"), [(255, np.uint16), (65535, np.uint32)])
def test_counts_widen_before_they_overflow(most, wider):
    narrow = np.full(20, most, dtype=np.uint8 if most == 255 else np.uint16)
    weights = Reweighing.restore(20, 1.0, 0.1, most, narrow)
    weights.update(np.ones(20, dtype=np.uint8))
    assert weights.state().dtype == wider
    assert set(weights.state()) == {most + 1}


@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_restored_weights_go_on_as_if_never_interrupted(kind):
    generator = np.random.default_rng(5)
    losses = (generator.random((10, 100)) < 0.4).astype(kind)
    through, stopped = Reweighing(100, 0.2, 0.5), Reweighing(100, 0.2, 0.5)
    for t, row in enumerate(losses):
        through.update(row)
        stopped.update(row)
        stopped = Reweighing.restore(100, 0.2, 0.5, t + 1, stopped.state())
    everyone = np.arange(100)
    np.testing.assert_array_equal(through.density().relative(everyone), stopped.density().relative(everyone))
    assert stopped.sampling_bound() == through.sampling_bound()


def test_sampling_bound_follows_the_schedule():
    weights = Reweighing(1000, 0.1, 0.5)
    assert weights.sampling_bound() == pytest.approx(1 / 1000)
    for t in range(1, 12):
        weights.update(np.zeros(1000, dtype=np.uint8))
        assert weights.sampling_bound() == pytest.approx(min(np.exp(t / 2) / (999 + np.exp(t / 2)), 0.01))
    assert Reweighing(1000, None, 0.5).sampling_bound() >= 1 / 1000
    assert Reweighing(1, None, 0.5).sampling_bound() == 1.0


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        (np.zeros(19, dtype=np.uint8), "shape"),
        (np.full(20, 2, dtype=np.uint8), "0 or 1"),
        (np.zeros(20, dtype=np.int64), "uint8, bool or float"),
    ],
)
def test_wrong_losses_are_refused_and_change_nothing(losses, says):
    weights = Reweighing(20, 1.0, 0.1)
    with pytest.raises(BadData, match=says):
        weights.update(losses)
    assert weights.updates == 0
    assert not weights.state().any()


@pytest.mark.parametrize(
    ("updates", "state", "says"),
    [
        (3, np.zeros(19, dtype=np.uint8), "shape"),
        (3, np.zeros(20, dtype=np.int32), "counts or float64"),
        (3, np.full(20, 4, dtype=np.uint8), "outside"),
        (3, np.full(20, np.nan), "outside"),
        (-1, np.zeros(20, dtype=np.uint8), "outside"),
    ],
)
def test_impossible_stored_weights_are_refused(updates, state, says):
    with pytest.raises(BadData, match=says):
        Reweighing.restore(20, 1.0, 0.1, updates, state)


def test_weights_stay_out_of_the_repr():
    assert repr(Reweighing(20, 1.0, 0.1)) == "Reweighing(n=20, kappa=1.0, eta=0.1, updates=0)"
