"""Half-spaces: Algorithm 3 step by step, with its corrections; work prepared ahead; Fisher's discriminant."""

import ctypes
import math
import mmap
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from common.core.arrays import AnyArray
from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Linear, Regressor
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.scenario.accepting import violations
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.learners.base import learn_from, parse_learner
from curator.learners.half_spaces import Discriminant, Sgd
from curator.mechanisms.gaussian_noise import fine_normals, normals
from curator.mechanisms.gradient_steps import coordinates, descend, prefetch
from curator.sample.rows import GatheredRows
from referee.protocols.base import small_ball
from tests.curator.learners import given
from tests.tiers import for_each, thinned

ALL_LOSSES = ("logistic", "hinge", "perceptron", "squared")


def sampler(n=300, d=4):
    features = np.random.default_rng(1).normal(size=(n, d)).astype(np.float32)
    records = Records(features, np.where(features[:, 0] - features[:, 1] > 0.3, 1, -1).astype(np.int8))
    return given.drawn(records)


def learned(draws: Any, seed: int, previous: Any = None, **settings: Any) -> Any:
    return given.learned(Sgd(**settings), draws, seed, previous)


def slowly(sampler, seed, previous=None, **settings):
    """Run Algorithm 3 in plain NumPy on the same draws and noise."""
    learner, source = Sgd(**settings), RandomSource.seeded(seed)
    d = sampler.dimension - (learner.loss == "squared")
    width = d + (learner.intercept != 0)
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
        y, label = draws.features[r - 1][:d].astype(float), float(draws.labels[r - 1])
        if learner.intercept != 0:
            y = np.append(y, learner.intercept)
        residual = iterate @ y - float(draws.features[r - 1][-1])
        margin = label * (iterate @ y)
        slope = {
            "squared": 2 * residual * label, "logistic": -1 / (1 + math.exp(margin)),
            "hinge": -1.0 if margin < 1 else 0.0, "perceptron": -1.0 if margin <= 0 else 0.0,
        }[learner.loss]  # fmt: skip
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
    {}, {"output": "suffix", "intercept": 0.0}, {"output": "last", "start": 0.5}, {"regularization": 0.3},
    {"clip": 0.4, "intercept": 2.0, "diameter": 0.8}, {"lasso": 0.2, "intercept": -1.0},
    {"domain": "box", "start": 1.0, "intercept": -0.5, "lasso": 0.05},
]  # fmt: skip
LOOPS = [
    # Loops without noise are compiled apart, and so is each way to project.
    pytest.param(d, noise, more, marks=[] if (noise and d != 8) or not more else [pytest.mark.slow])
    for d in (4, 8, 17)  # 17: one coordinate is left beside whole vectors
    for noise in (0.0, 0.7)
    for more in SETTINGS
]


@for_each("loss", ALL_LOSSES)
@for_each(("d", "noise", "more"), LOOPS)
def test_kernel_agrees_with_the_algorithm_step_by_step(d, loss, noise, more):
    # The squared loss bends: longer steps would enlarge what rounding does, from step to step.
    settings = {"steps": 200, "diameter": 0.6 if loss == "squared" else 6.0, "noise": noise, "loss": loss, **more}
    found, (weights, threshold) = learned(sampler(d=d), 3, **settings), slowly(sampler(d=d), 3, **settings)
    np.testing.assert_allclose([*found.weights, border(found)], [*weights, threshold], rtol=1e-8, atol=1e-8)


def border(found: Linear | Regressor) -> float:
    return found.threshold if isinstance(found, Linear) else -found.intercept


@for_each("loss", ALL_LOSSES)
@for_each("more", [{}, {"start": 0.5, "output": "suffix"}, {"domain": "box", "start": 1.0, "intercept": -0.5}])
def test_many_coordinates_in_single_precision_agree_with_the_algorithm(loss, more):
    settings = {"steps": 400, "diameter": 6.0, "noise": 0.7, "loss": loss, **more}
    assert Sgd(**settings).descent.single(101)
    found, (weights, threshold) = learned(sampler(d=100), 3, **settings), slowly(sampler(d=100), 3, **settings)
    assert np.linalg.norm(found.weights - weights) < 2e-3 * np.linalg.norm(weights)
    assert border(found) == pytest.approx(threshold, abs=2e-3)


@for_each("scale", thinned([1e-30, 0.01, 1.0, 1e10, 1e25, 1e18], 3, rest=pytest.mark.thorough))
@for_each("intercept", [0.0, 0.3])
@for_each("loss", ["hinge", "squared"])
def test_no_gradient_in_single_precision_is_longer_than_the_clip(scale, intercept, loss):
    # Without noise, from 0 and with a step of 1, the iterate is the gradient on its grid, exactly. The squared loss is
    # of one more feature, on either side of what is predicted from 0.
    descent = Sgd(steps=1, noise=2.0, diameter=1e30, loss=loss, intercept=intercept).descent
    width = 200 + (intercept != 0.0)
    assert descent.single(width)
    nothing, rule = np.zeros((1, width), np.int16), descent.rule(width)._replace(scale=1.0)
    shape = (50, 200 + (loss == "squared"))
    features = (scale * np.random.default_rng(2).standard_cauchy(shape)).astype(np.float32)
    if loss == "squared":
        features[:, -1] = np.where(features[:, -1] > 0, 1e3, -1e3)
    for record in features:
        away, total = coordinates(width, np.float32), coordinates(width, np.float32)
        descend(GatheredRows.from_records(Records(record[None], np.ones(1, np.int8))), nothing, away, total, 0, rule)
        cells = away.astype(float) * 1024
        np.testing.assert_array_equal(cells, np.rint(cells))
        assert (1000 if 0.01 < scale < 1e15 else 0) <= np.linalg.norm(cells) <= 1024


@for_each(
    ("single", "more"),
    [
        (True, {}), (True, {"steps": 10**10}), (False, {"steps": 10**10, "noise": 1e-3}), (False, {"noise": 0.0}),
        (False, {"noise": 100.0}), (False, {"lasso": 0.1}), (False, {"regularization": 0.1}),
        (False, {"domain": "box", "diameter": 1e-4}),
    ],
)  # fmt: skip
def test_single_precision_is_used_where_the_noise_outweighs_its_rounding(single, more):
    descent = Sgd(**{"steps": 10**6, "diameter": 6.0, "noise": 2.0, **more}).descent
    assert (descent.single(200), descent.single(9)) == (single, False)


def test_warm_start_begins_at_the_released_hypothesis_inside_the_domain_if_it_fits():
    settings = {"steps": 50, "diameter": 2.0, "noise": 0.5, "intercept": 0.5}
    previous = Linear(weights=(3.0, -3.0, 0.5, 0.0), threshold=0.4)
    found = learned(sampler(), 4, previous, warm=True, **settings)
    np.testing.assert_allclose(found.weights, slowly(sampler(), 4, previous, **settings)[0], rtol=1e-8)
    for unfit in (None, Constant(label=1), Linear(weights=(1.0,), threshold=0.0)):
        assert learned(sampler(), 4, unfit, warm=True, **settings) == learned(sampler(), 4, **settings)
    still = {"steps": 1, "diameter": 1e-9, "noise": 0.0, "domain": "box", "output": "last", "warm": True}
    found = learned(sampler(), 4, previous.model_copy(update={"threshold": -0.25}), **still)
    np.testing.assert_allclose([*found.weights, found.threshold], [1.0, 0.0, 0.5, 0.0, -0.25], atol=1e-6)


@pytest.mark.parametrize("d", [5, 20])
def test_every_iterate_counts_once_however_many_blocks_there_are(d, monkeypatch):
    # All records are the same, so that blocks have the same draws whatever their size.
    record = np.random.default_rng(6).normal(size=(1, d)).astype(np.float32)
    draws = given.drawn(Records(np.repeat(record, 20, axis=0), np.ones(20, dtype=np.int8)))
    found = []
    for cells in (1 << 19, 10 * (d + 1)):
        monkeypatch.setattr("curator.mechanisms.gradient_steps._CELLS", cells)
        one = learned(draws, 5, steps=90, diameter=1.0, noise=0.0, start=0.25)
        found.append([*one.weights, one.threshold])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@for_each("cores", [1, 2, 8])
@for_each("d", [4, 80])
def test_the_result_does_not_depend_on_the_number_of_threads(cores, d, monkeypatch):
    monkeypatch.setattr("curator.mechanisms.gradient_steps._CELLS", 125 * d)
    settings = {"steps": 20_050, "diameter": 20.0, "noise": 1.0}
    expected = learned(sampler(n=3000, d=d), 5, **settings)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(cores)))
    assert learned(sampler(n=3000, d=d), 5, **settings) == expected


@for_each(("d", "noise", "cells"), [(4, 2.0, 2**11), (8, 0.3, 2**11), (8, 80.0, 2**11), (4, 300.0, 2**26)])
@for_each("loss", ["logistic", "perceptron"])
def test_gradient_and_noise_are_multiples_of_one_public_unit(d, noise, cells, loss):
    # With this regularization the first step is minus the clipped gradient and its noise.
    settings = {"steps": 1, "diameter": 1e9, "noise": noise, "loss": loss, "clip": 0.5, "regularization": 1.0}
    found = [learned(sampler(d=d), seed, **settings) for seed in range(40)]
    moves = np.array([[*one.weights, one.threshold] for one in found]) / (0.5 * noise / cells)
    np.testing.assert_allclose(moves, np.rint(moves), rtol=0, atol=1e-9 * cells)
    assert np.abs(np.rint(moves)).max() > 1


def test_excess_loss_shrinks_as_theorem_a1_says():
    # err(average) <= err(best) + 3 D sqrt(L^2 + sigma^2 d) / (2 sqrt(R)), in expectation.
    records = sampler(n=2000).draws(2000, RandomSource.seeded(1))
    features = records.features / np.maximum(1.0, np.hypot(np.linalg.norm(records.features, axis=1), 1.0))[:, None]
    draws = given.drawn(Records(features.astype(np.float32), records.labels))

    def loss(seed, steps, noise):
        found = learned(draws, seed, steps=steps, diameter=4.0, noise=noise, clip=math.sqrt(2.0))
        return np.log1p(np.exp(-records.labels * found.margins(features.astype(np.float32)))).mean()

    best = loss(7, 200_000, 0.0)
    for steps in (1_000, 16_000):
        assert loss(6, steps, 1.0) - best <= 1.5 * 4.0 * math.sqrt(2.0 + 2.0 * 5) / math.sqrt(steps)


@for_each(
    ("width", "noise", "share"), [(3, 0.5, 2.0**-32), (3, 1e4, 2.0**-32), (100, 2.0, 2.0**-10)]
)  # the last one in single precision
def test_the_clip_leaves_room_for_every_rounding(width, noise, share):
    # Half a unit a coordinate for the grid, and a share for the square root and the products before it.
    learner = Sgd(steps=10, noise=noise, diameter=2.0)
    rule = learner.descent.rule(width)
    reach = (rule.clip + 0.5 * math.sqrt(width)) * rule.unit
    assert 1.0 - share * 2.0 <= reach / learner.clip <= 1.0 - share / 2.0


NO_ACCESS, READ_AND_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


@contextmanager
def guarded(array: AnyArray) -> Iterator[AnyArray]:
    """Yield a copy of an array that ends where a page ends; to read the next page ends the process."""
    pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages)
    assert protect(behind, mmap.PAGESIZE, NO_ACCESS) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, pages - array.nbytes).reshape(array.shape)
    copy[...] = array
    try:
        yield copy
    finally:
        assert protect(behind, mmap.PAGESIZE, READ_AND_WRITE) == 0


@for_each("d", [5, 12])
@for_each("intercept", [0.0, 1.0])
def test_descent_reads_its_arrays_and_nothing_behind_them(d: int, intercept: float) -> None:
    """Draws by their rows, with noise: with and without an intercept, up to eight features and more."""
    random, width, found = np.random.default_rng(3), d + (intercept != 0.0), []
    rule = Sgd(steps=10**6, diameter=6.0, noise=2.0, intercept=intercept).descent.rule(width)
    plain = (
        random.normal(size=(9, d)).astype(np.float32),
        np.where(random.random(9) < 0.5, 1, -1).astype(np.int8),
        np.array([8, 0, 8, 3, 1, 8]),
        random.integers(-9, 9, (6, width)).astype(np.int16),
    )
    with ExitStack() as held:
        for arrays in (plain, tuple(held.enter_context(guarded(array)) for array in plain)):
            features, labels, rows, noise = arrays
            away, total = coordinates(width, np.float64), coordinates(width, np.float64)
            descend(GatheredRows(features, labels, rows, None), noise, away, total, 0, rule)
            found.append((away, total))
        del arrays, features, labels, rows, noise
    np.testing.assert_array_equal(*[np.concatenate(parts) for parts in found])


@pytest.fixture(params=[2, 5])
def cores(request, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(request.param)))
    return request.param


def test_items_come_in_order_whoever_was_quick_and_few_are_held_at_once(cores):
    begun: list[int] = []

    def prepare(number: int) -> int:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return number

    for count in (0, 1, 3, 50):
        begun.clear()
        for used, number in enumerate(prefetch(prepare, count)):
            assert number == used
            assert len(begun) <= used + 2 + cores
        assert sorted(begun) == list(range(count))


def test_a_single_core_prepares_each_item_when_its_turn_comes(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3})
    begun: list[threading.Thread] = []
    for used in prefetch(lambda number: begun.append(threading.current_thread()) or number, 15):
        assert begun == [threading.current_thread()] * (used + 1)


def test_an_error_or_a_caller_that_stops_early_leaves_no_work(cores):
    begun: list[int] = []
    ended: list[int] = []

    def prepare(number: int, wrong: int = -1) -> int:
        begun.append(number)
        time.sleep(0.002)
        ended.append(number)
        return 1 // (number - wrong)

    for wrong in (0, 7):
        with pytest.raises(ZeroDivisionError):
            list(prefetch(partial(prepare, wrong=wrong), 20))
        assert sorted(begun) == sorted(ended)
    items: Any = prefetch(prepare, 1000)
    assert next(items) == 1
    items.close()
    before = list(begun)
    assert sorted(before) == sorted(ended)
    time.sleep(0.01)
    assert begun == before


def two_classes(n: int, share: float = 0.5, seed: int = 1) -> Records:
    """Return two normal classes, of whom ``share`` is +1; three of six features tell them apart."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < share, 1, -1).astype(np.int8)
    middle = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    return Records((0.2 + 0.25 * rng.normal(size=(n, 6)) + 0.5 * labels[:, None] * middle).astype(np.float32), labels)


def discriminant(records: Records, **settings: Any) -> Any:
    return given.learned(Discriminant(**{"norm": 2.0, **settings}), records)


def planned(learner: str, *changes: str) -> Any:
    once = ("protocol=learn-and-test", "curator.rounds=1", "curator.epsilon=1", "curator.delta=1e-6")
    return parse_learner(resolve(small_ball(*once, f"curator.learner={learner}", *changes)).curator.learner)


@for_each("share", [0.5, 0.1])
def test_without_noise_it_is_fishers(share):
    records = two_classes(20_000, share)
    found = discriminant(records, mu=100.0, ridge=1e-3, precondition=0.0)
    fisher = LinearDiscriminantAnalysis(solver="lsqr").fit(records.features, records.labels)
    assert np.array(found.weights) == pytest.approx(fisher.coef_[0], abs=0.2)
    assert found.threshold == pytest.approx(-fisher.intercept_[0], abs=0.1)


@pytest.mark.slow
def test_with_few_people_it_learns_what_noisy_gradients_do_not():
    """Both spend epsilon = 1 on 1,500 people of whom a tenth is +1, and rank others."""
    others, found = two_classes(20_000, 0.1, seed=9), []
    for asked in (
        "{name: discriminant, norm: 1.0, mu: plan}",
        "{name: sgd, steps: 2000, clip: 1.0, noise: plan, diameter: 30.0}",
    ):
        learner, ranked = planned(asked, "curator.n=1500"), []
        for seed in range(8):
            draws = given.drawn(two_classes(1500, 0.1, seed=seed))
            one = learn_from(learner, draws, RandomSource.seeded(seed), tv_bound=1.0 / 1500)
            ranked.append(roc_auc_score(others.labels, one.scores(others.features)))
        found.append(np.mean(ranked))
    assert found[0] > found[1] + 0.05


def test_its_score_is_about_the_logarithm_of_the_odds():
    records = two_classes(20_000, 0.2)
    near = np.abs(discriminant(records, mu=0.5).scores(records.features) + 1.0) < 0.25
    assert (records.labels[near] > 0).mean() == pytest.approx(1.0 / (1.0 + np.e), abs=0.06)


def test_a_class_with_nobody_and_features_that_never_vary_give_a_model_all_the_same():
    found = discriminant(Records(np.ones((50, 3), dtype=np.float32), -np.ones(50, dtype=np.int8)), mu=1.0)
    assert np.isfinite([*found.weights, found.threshold]).all()


def test_a_plan_gives_its_one_release_the_whole_budget():
    asked = "{name: discriminant, norm: 2.0, mu: plan}"
    assert 0.999 < cost([(planned(asked).event(1.0), 1)], 1e-6) <= 1.0
    with pytest.raises(BadScenario, match="needs the curator's epsilon"):
        planned(asked, "curator.epsilon=null", "curator.delta=null")


def test_beside_a_portfolio_s_counts_it_has_what_they_leave_together():
    """Gaussian and pure releases compose to the sum of their epsilons at most."""
    chosen = resolve(load("portfolio", ["curator.learner={name: discriminant, norm: 2.0, mu: plan}"]))
    learner: Any = parse_learner(chosen.curator.learner)
    assert 0.96 < cost([(event, 1) for event in (learner.event(1.0), *chosen.planned_margins)], 1e-6) <= 1.0
    assert learner.mu >= 0.999 * mu_allowed(0.9, 1e-6)
    assert not [told for told in violations(chosen) if told.startswith("privacy")]
