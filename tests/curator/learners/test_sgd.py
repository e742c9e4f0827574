"""Private SGD: Algorithm 3 step by step, with its corrections."""

import math
from typing import Any

import numpy as np
import pytest

from common.data.distributions.gaussians import GaussianBall
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from
from curator.learners.sgd import Sgd
from curator.mechanisms.gaussian_noise import fine_normals, normals
from curator.mechanisms.gradient_steps import coordinates, descend
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import GatheredRows
from tests.tiers import for_each, thinned


def sampler(n=300, d=4, seed=1, scale=1.0):
    features = (scale * np.random.default_rng(seed).normal(size=(n, d))).astype(np.float32)
    records = Records(features, np.where(features[:, 0] - features[:, 1] > 0.3, 1, -1).astype(np.int8))
    return Reweighing(n, 0.5, 0.1).sampler(records), records


def slowly(learner, sampler, source, previous=None):
    """Run Algorithm 3 in plain NumPy on the same draws and noise."""
    d, width = sampler.dimension, sampler.dimension + (learner.intercept != 0)
    start = np.full(width, learner.start)
    iterate = start.copy()
    if previous is not None:
        iterate = np.array([*previous.weights, -previous.threshold / learner.intercept])
        away = np.linalg.norm(iterate - start)
        iterate = start + (iterate - start) * min(1.0, learner.diameter / 2 / away)
    words = source.derive("draws", 0)
    draws = sampler.draws(learner.steps, words)
    sigma, unit, bound = learner.noise * learner.clip, 0.0, learner.clip
    noise = np.zeros((learner.steps, width))
    if learner.noise:
        coarse = 2**11 / learner.noise >= 8 * math.sqrt(width)
        unit = sigma / (2**11 if coarse else 2**26)
        bound -= math.sqrt(width) / 2 * unit
        numbers = (normals if coarse else fine_normals)(learner.steps * width, words)
        noise = unit * numbers.reshape(-1, width)
    iterates = []
    for r in range(1, learner.steps + 1):
        y, label = draws.features[r - 1].astype(float), float(draws.labels[r - 1])
        if learner.intercept != 0:
            y = np.append(y, learner.intercept)
        margin = label * (iterate @ y)
        slope = {
            "logistic": -1 / (1 + math.exp(margin)),
            "hinge": -1.0 if margin < 1 else 0.0,
            "perceptron": -1.0 if margin <= 0 else 0.0,
        }[learner.loss]
        gradient = slope * label * y
        gradient *= min(1.0, bound / max(np.linalg.norm(gradient), 1e-300))
        if unit:
            gradient = unit * np.rint(gradient / unit)
            assert np.linalg.norm(gradient) <= learner.clip
        step = learner.diameter / math.sqrt((learner.clip**2 + sigma**2 * width) * r)
        if learner.regularization:
            step = 1 / (learner.regularization * r)
        iterate = iterate - step * (gradient + noise[r - 1] + learner.regularization * (iterate - start))
        iterate[:d] = (np.maximum(np.abs(iterate) - step * learner.lasso, 0.0) * np.sign(iterate))[:d]
        away = np.linalg.norm(iterate - start)
        if learner.domain == "box":
            iterate = np.clip(iterate, 0.0, 1.0)
        elif away > learner.diameter / 2:
            iterate = start + (iterate - start) * (learner.diameter / 2 / away)
        iterates.append(iterate)
    kept = {"average": iterates, "suffix": iterates[learner.steps // 2 :], "last": iterates[-1:]}[learner.output]
    answer = np.mean(kept, axis=0)
    return answer[:d], -learner.intercept * answer[-1] if learner.intercept != 0 else 0.0


SETTINGS: list[dict[str, Any]] = [
    {},
    {"output": "suffix", "intercept": 0.0},
    {"output": "last", "start": 0.5},
    {"regularization": 0.3},
    {"clip": 0.4, "intercept": 2.0, "diameter": 0.8},
    {"lasso": 0.2, "intercept": -1.0},
    {"domain": "box", "start": 1.0, "intercept": -0.5, "lasso": 0.05},
]
LOOPS = [
    # Loops without noise are compiled apart, and so is each way to project.
    pytest.param(d, noise, more, marks=[] if (noise and d != 8) or not more else [pytest.mark.slow])
    for d in (4, 8, 17)  # 17: one coordinate is left beside whole vectors
    for noise in (0.0, 0.7)
    for more in SETTINGS
]


@for_each("loss", ["logistic", "hinge", "perceptron"])
@for_each(("d", "noise", "more"), LOOPS)
def test_kernel_agrees_with_the_algorithm_step_by_step(d, loss, noise, more):
    learner = Sgd(**{"steps": 200, "diameter": 6.0, "noise": noise, "loss": loss, **more})
    draws, _ = sampler(d=d)
    learned: Any = learn_from(learner, draws, RandomSource.seeded(3), None)
    weights, threshold = slowly(learner, draws, RandomSource.seeded(3))
    np.testing.assert_allclose(learned.weights, weights, rtol=1e-8, atol=1e-8)
    assert learned.threshold == pytest.approx(threshold, rel=1e-8, abs=1e-8)


@for_each("loss", ["logistic", "hinge", "perceptron"])
@for_each("more", [{}, {"start": 0.5, "output": "suffix"}, {"domain": "box", "start": 1.0, "intercept": -0.5}])
def test_many_coordinates_in_single_precision_agree_with_the_algorithm(loss, more):
    learner = Sgd(**{"steps": 400, "diameter": 6.0, "noise": 0.7, "loss": loss, **more})
    assert learner.descent.single(101)
    draws, _ = sampler(d=100)
    learned: Any = learn_from(learner, draws, RandomSource.seeded(3), None)
    weights, threshold = slowly(learner, draws, RandomSource.seeded(3))
    assert np.linalg.norm(learned.weights - weights) < 2e-3 * np.linalg.norm(weights)
    assert learned.threshold == pytest.approx(threshold, abs=2e-3)


@for_each("scale", thinned([1e-30, 0.01, 1.0, 1e10, 1e18, 1e25], 3))
@for_each("intercept", [0.0, 0.3])
def test_no_gradient_in_single_precision_is_longer_than_the_clip(scale, intercept):
    # Without noise, from 0 and with a step of 1, the iterate is the gradient on its grid, exactly.
    learner = Sgd(steps=1, noise=2.0, diameter=1e30, loss="hinge", intercept=intercept)
    d = 200
    width = d + (intercept != 0.0)
    rule = learner.descent.rule(width)._replace(scale=1.0)
    assert learner.descent.single(width)
    features = (scale * np.random.default_rng(2).standard_cauchy((50, d))).astype(np.float32)
    for record in features:
        away, total = coordinates(width, np.float32), coordinates(width, np.float32)
        descend(
            GatheredRows.of(Records(record[None], np.ones(1, np.int8))),
            np.zeros((1, width), np.int16),
            away,
            total,
            0,
            rule,
        )
        cells = away.astype(float) * 1024
        np.testing.assert_array_equal(cells, np.rint(cells))
        assert np.linalg.norm(cells) <= 1024
        if 0.01 < scale < 1e15:
            assert np.linalg.norm(cells) > 1000


@for_each(
    ("single", "more"),
    [
        (True, {}),
        (True, {"steps": 10**10}),
        (False, {"steps": 10**10, "noise": 1e-3}),
        (False, {"noise": 0.0}),
        (False, {"noise": 100.0}),
        (False, {"lasso": 0.1}),
        (False, {"regularization": 0.1}),
        (False, {"domain": "box", "diameter": 1e-4}),
    ],
)
def test_single_precision_is_used_where_the_noise_outweighs_its_rounding(single, more):
    learner = Sgd(**{"steps": 10**6, "diameter": 6.0, "noise": 2.0, **more})
    assert learner.descent.single(200) == single
    assert not learner.descent.single(9)


def test_warm_start_begins_at_the_released_hypothesis_inside_the_ball():
    draws, _ = sampler()
    learner = Sgd(steps=50, diameter=2.0, noise=0.5, intercept=0.5, warm=True)
    previous = Linear(weights=(3.0, -3.0, 0.0, 0.0), threshold=0.4)
    learned: Any = learn_from(learner, draws, RandomSource.seeded(4), previous)
    np.testing.assert_allclose(learned.weights, slowly(learner, draws, RandomSource.seeded(4), previous)[0], rtol=1e-8)


@for_each("previous", [None, Constant(label=1), Linear(weights=(1.0,), threshold=0.0)])
def test_warm_start_without_a_fitting_hypothesis_is_the_public_start(previous):
    draws, _ = sampler()
    settings = {"steps": 50, "diameter": 2.0, "noise": 0.5}
    warm = learn_from(Sgd(**settings, warm=True), draws, RandomSource.seeded(4), previous)
    assert warm == learn_from(Sgd(**settings), draws, RandomSource.seeded(4), None)


@pytest.mark.parametrize("d", [5, 20])
def test_every_iterate_counts_once_however_many_blocks_there_are(d, monkeypatch):
    # All records are the same, so that blocks have the same draws whatever their size.
    record = np.random.default_rng(6).normal(size=(1, d)).astype(np.float32)
    records = Records(np.repeat(record, 20, axis=0), np.ones(20, dtype=np.int8))
    draws = Reweighing(20, None, 0.1).sampler(LocalSample.of(records))
    learner = Sgd(steps=90, diameter=1.0, noise=0.0, start=0.25)
    one: Any = learn_from(learner, draws, RandomSource.seeded(5), None)
    monkeypatch.setattr("curator.mechanisms.clipped_steps._CELLS", 10 * (d + 1))
    several = learn_from(learner, draws, RandomSource.seeded(5), None)
    np.testing.assert_allclose(several.weights, one.weights, rtol=1e-12)  # type: ignore[attr-defined]
    assert several.threshold == pytest.approx(one.threshold, rel=1e-12)  # type: ignore[attr-defined]


@for_each("cores", [1, 2, 8])
@for_each("d", [4, 80])
def test_the_result_does_not_depend_on_the_number_of_threads(cores, d, monkeypatch):
    monkeypatch.setattr("curator.mechanisms.clipped_steps._CELLS", 125 * d)
    draws, _ = sampler(n=3000, d=d)
    learner = Sgd(steps=20_050, diameter=20.0, noise=1.0)
    expected = learn_from(learner, draws, RandomSource.seeded(5), None)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
    assert learn_from(learner, draws, RandomSource.seeded(5), None) == expected


def first_moves(d, noise, loss, seeds):
    """Return clipped gradient plus noise of the first step, shape (seeds, d + 1): with this regularization, -h."""
    learner = Sgd(steps=1, diameter=1e9, noise=noise, loss=loss, clip=0.5, regularization=1.0)
    draws, _ = sampler(d=d)
    learned = (learn_from(learner, draws, RandomSource.seeded(seed), None) for seed in range(seeds))
    return -np.array([[*one.weights, -one.threshold] for one in learned])  # type: ignore[attr-defined]


@for_each(("d", "noise", "cells"), [(4, 2.0, 2**11), (8, 0.3, 2**11), (8, 80.0, 2**11), (4, 300.0, 2**26)])
@for_each("loss", ["logistic", "perceptron"])
def test_gradient_and_noise_are_multiples_of_one_public_unit(d, noise, cells, loss):
    moves = first_moves(d, noise, loss, 40) / (0.5 * noise / cells)
    np.testing.assert_allclose(moves, np.rint(moves), rtol=0, atol=1e-9 * cells)
    assert np.abs(np.rint(moves)).max() > 1


def test_no_gradient_is_longer_than_the_clip_whatever_the_features():
    # Without noise, and with one step, the iterate is -step * gradient.
    draws, _ = sampler(scale=1e6)
    for seed in range(20):
        learner = Sgd(steps=1, diameter=2.0, noise=0.0, clip=0.25, loss="hinge", intercept=0.5)
        learned: Any = learn_from(learner, draws, RandomSource.seeded(seed), None)
        moved = np.linalg.norm([*learned.weights, -learned.threshold / 0.5])
        assert moved == pytest.approx(2.0 * 0.25 / 0.25 / 2.0, rel=1e-6)


def test_noise_is_added_where_the_gradient_is_zero():
    # A start far on the right side: every hinge gradient is zero, and only the noise moves.
    features = np.ones((100, 1), dtype=np.float32)
    draws = Reweighing(100, 0.5, 0.1).sampler(Records(features, np.ones(100, dtype=np.int8)))
    moves = []
    for seed in range(300):
        learner = Sgd(steps=1, diameter=1e6, noise=2.0, clip=0.5, loss="hinge", intercept=0.0, start=1e4)
        step = 1e6 / math.sqrt(0.25 + 1.0)
        moves.append((learn_from(learner, draws, RandomSource.seeded(seed), None).weights[0] - 1e4) / step)  # type: ignore[attr-defined]
    # sigma = noise * clip = 1, cut off at D/2 = 0.56 step lengths by the projection.
    moved = np.array(moves)
    assert np.count_nonzero(moved) == 300
    assert abs(np.mean(np.abs(moved) < 0.5) - 0.383) < 6 * math.sqrt(0.383 * 0.617 / 300)


def test_excess_loss_shrinks_as_theorem_a1_says():
    # err(average) <= err(best) + 3 D sqrt(L^2 + sigma^2 d) / (2 sqrt(R)), in expectation.
    _, records = sampler(n=2000)
    y = np.hstack([records.features, np.ones((2000, 1), dtype=np.float32)])
    y /= np.maximum(1.0, np.linalg.norm(y, axis=1, keepdims=True))
    scaled = Records(y[:, :4].copy(), records.labels)
    bound_by = []
    for steps in (1_000, 16_000):
        learner = Sgd(steps=steps, diameter=4.0, noise=1.0, clip=math.sqrt(2.0))
        learned = learn_from(learner, Reweighing(2000, 0.5, 0.1).sampler(scaled), RandomSource.seeded(6), None)
        margins = records.labels * learned.margins(scaled.features)
        loss = np.log1p(np.exp(-margins)).mean()
        best = learn_from(
            Sgd(steps=200_000, diameter=4.0, noise=0.0, clip=math.sqrt(2.0)),
            Reweighing(2000, 0.5, 0.1).sampler(scaled),
            RandomSource.seeded(7),
            None,
        )
        optimum = np.log1p(np.exp(-records.labels * best.margins(scaled.features))).mean()
        bound_by.append((loss - optimum) / (1.5 * 4.0 * math.sqrt(2.0 + 2.0 * 5) / math.sqrt(steps)))
    assert max(bound_by) <= 1.0


@pytest.mark.slow
def test_the_lasso_finds_the_separating_coordinates_in_a_single_iteration():
    # Appendix D, smaller: 3 of 40 coordinates matter, and one person in forty of the source is inside.
    settings = {"d": 40, "close": 3, "sigma_source": 1.0, "sigma_target": 0.4, "inside": 0.3, "center": 1.0}
    people = GaussianBall.parse({**settings, "side": "source", "scale": 0.1}).draw(1, np.arange(4000))
    learner = Sgd(steps=200_000, noise=0.0, clip=1.3, diameter=30.0, intercept=0.5, output="suffix")
    stray = {}
    for lasso in (0.0, 8e-4):
        chosen = learner.model_copy(update={"lasso": lasso})
        learned: Any = learn_from(chosen, Reweighing(4000, None, 0.1).sampler(people), RandomSource.seeded(1), None)
        sizes = np.abs(learned.weights)
        assert sizes[:3].min() > 5.0
        stray[lasso] = sizes[3:].max() / sizes[:3].min()
    assert stray[8e-4] < 0.05
    assert stray[0.0] > 0.1


def test_ellipses_in_the_box_are_learned_as_in_the_paper():
    # Appendix D: sum_j w_j x_j^2 <= b with w, b in [0, 1], perceptron loss, from w = b = 1, last iterate.
    settings = {"d": 6, "close": 2, "sigma_source": 1.0, "sigma_target": 0.4, "inside": 0.9}
    people = GaussianBall.parse({**settings, "side": "source"}).draw(1, np.arange(20_000))
    learner = Sgd(
        steps=200_000, loss="perceptron", noise=0.0, clip=8.0, diameter=math.sqrt(7), domain="box", start=1.0,
        intercept=-1.0, output="suffix",
    )  # fmt: skip
    learned: Any = learn_from(learner, Reweighing(20_000, None, 0.1).sampler(people), RandomSource.seeded(1), None)
    assert min(*learned.weights, learned.threshold) >= 0.0
    assert max(*learned.weights, learned.threshold) <= 1.0
    assert min(learned.weights[:2]) > 5 * max(learned.weights[2:])
    assert learned.mistakes(people).mean() < 0.05


def test_warm_start_in_the_box_begins_inside_it():
    draws, _ = sampler()
    learner = Sgd(steps=1, diameter=1e-9, noise=0.0, domain="box", warm=True, output="last")
    learned: Any = learn_from(
        learner, draws, RandomSource.seeded(4), Linear(weights=(3.0, -3.0, 0.5, 0.0), threshold=-0.25)
    )
    np.testing.assert_allclose([*learned.weights, learned.threshold], [1.0, 0.0, 0.5, 0.0, -0.25], atol=1e-6)


@for_each(
    ("width", "noise", "share"), [(3, 0.5, 2.0**-32), (3, 1e4, 2.0**-32), (100, 2.0, 2.0**-10)]
)  # the last one in single precision
def test_the_clip_leaves_room_for_every_rounding(width, noise, share):
    # Half a unit a coordinate for the grid, and a share for the square root and the products before it.
    learner = Sgd(steps=10, noise=noise, diameter=2.0)
    rule = learner.descent.rule(width)
    reach = (rule.clip + 0.5 * math.sqrt(width)) * rule.unit
    assert reach <= learner.clip * (1.0 - share / 2.0)
    assert reach >= learner.clip * (1.0 - share * 2.0)
