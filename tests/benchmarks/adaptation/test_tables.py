"""From a split to a row of a table: what is private is paid for, what is measured is kept, what is missing is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from benchmarks.adaptation import __main__ as command
from benchmarks.adaptation import figures, measuring, ours
from benchmarks.adaptation.baselines import minibatch_sgd
from benchmarks.adaptation.baselines.methods import BASELINES, RIDGE
from benchmarks.adaptation.baselines.private_moments import learn, noisy_moment
from benchmarks.adaptation.candidates import best, score
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.datasets.base import Raw
from benchmarks.adaptation.datasets.scaling import CONSTANT, NORM, scaled
from benchmarks.adaptation.paper import ACCURACY, RELATIVE_ERROR
from benchmarks.adaptation.points import Point, points
from benchmarks.adaptation.splits import resampled, split
from benchmarks.adaptation.tables import scores, table
from benchmarks.adaptation.unconverged import as_printed, descend
from benchmarks.figures.store import Row
from common.core.errors import BadInput
from common.numerics.randomness import RandomSource
from common.privacy.events import SubsampledSteps
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.selection import epsilon_of_selection
from curator.learners.domains import Domains, DomainSide, least_squares, logistic
from curator.learners.source_weights import KernelMeanMatching, Penalties, alternate, best_shares, match, objective
from tests.support import public_data
from tests.tiers import for_each


def raw(rows, shift=0.0, task="regression", seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 3)) * [1.0, 5.0, 0.2] + shift
    scores = features @ [0.1, -0.02, 0.3] + 0.05 * generator.normal(size=rows)
    responses = np.clip(scores, -1.0, 1.0) if task == "regression" else np.where(scores > 0.0, 1.0, -1.0)
    return Raw(features, responses)


def pair(task="regression", name="wind", copies=1):
    source, target = raw(300, 0.0, task, 1), raw(90, 0.3, task, 2)
    return scaled(name, task, source, target, (40, 20, 30), 2.0, copies)


KEYS = ["table", "dataset", "method", "mean", "deviation", "paper_mean", "paper_deviation", "note"]
SMALL_SETTINGS = {"alpha": 0.5, "iterations": 20}
SMALL = {"regression": {"alpha": [0.5], "iterations": [20]}, "classification": {"alpha": [0.5], "iterations": [20]}}


@pytest.fixture
def generator():
    return np.random.default_rng(5)


def row(point, number, test):
    return Row(point.name, number, number, 0.0, {"test": test, "settings": {}})


@pytest.fixture
def quick(monkeypatch):
    """Make every data set a small one, and every grid one setting."""
    loaders = {
        name: lambda data, name=name: pair("classification" if name in ACCURACY else "regression", name, 2)
        for name in {point.dataset for point in points()}
    }
    monkeypatch.setattr(measuring, "DATASETS", loaders)
    monkeypatch.setattr(figures, "DATASETS", loaders)
    monkeypatch.setattr(ours, "GRIDS", SMALL)
    for module in (measuring, figures):
        module._pair.cache_clear()
    yield
    for module in (measuring, figures):
        module._pair.cache_clear()


@for_each("task", ["regression", "classification"])
def test_a_private_choice_costs_no_more_than_is_stated(monkeypatch, task):
    charged = []
    monkeypatch.setattr(ours, "fit", lambda pair, domains, settings, mu, source: charged.append(mu) or np.zeros(4))
    monkeypatch.setattr(ours, "noisy_sum", lambda total, parts, mu, source: charged.append(mu) or 0)
    small = pair(task)
    list(ours.chosen_privately(small, split(small, 0), 3.0))
    # Fit and score see disjoint people: a run is as private as the weaker of the two.
    assert epsilon_of_selection(max(charged), ours.LAW, ours.DELTA) <= 3.0
    assert max(charged) < mu_allowed(3.0, ours.DELTA)


def test_the_score_is_of_losses_in_the_unit_interval_and_clips_where_the_public_source_says():
    small = pair()
    parts = split(small, 0)
    largest = ours.largest_residual(small, parts)
    assert 0 <= ours.losses(parts, np.zeros(4), largest) <= 20 << 20
    # Worst where every residual is beyond the public bound.
    assert ours.losses(parts, np.array([0.0, 0.0, 0.0, 1e6]), largest) == 20 << 20
    assert largest == ours.largest_residual(small, replace(parts, train=parts.test, validation=parts.train))
    wider = DomainSide(parts.source.features, parts.source.responses[::-1].copy())
    assert ours.largest_residual(small, replace(parts, source=wider)) > 2.0 * largest


def test_ours_learns_without_privacy(quick):
    for dataset, method in (("wind", "CnvxAdap"), ("adult", "NCnvxAdap")):
        found = measuring.measure(Point(dataset, "none", method), 0, None).measured
        reference = measuring.measure(Point(dataset, "none", "train on target"), 0, None).measured
        assert found["test"] < 1.2 * reference["test"] if dataset == "wind" else found["test"] > 0.8


def test_errors_are_relative_to_training_on_the_target_split_by_split():
    rows = [row(Point("wind", "none", "train on target"), number, value) for number, value in enumerate((2.0, 4.0))]
    rows += [row(Point("wind", "none", "SBest"), number, value) for number, value in enumerate((1.0, 3.0, 9.0))]
    (found,) = table(1, scores(rows))
    # The third split has nothing to compare with.
    assert list(found) == KEYS
    assert (found["mean"], found["deviation"]) == (0.625, 0.177)
    assert (found["paper_mean"], found["paper_deviation"]) == RELATIVE_ERROR["wind"]["SBest"]
    assert "2 splits only" in found["note"]


def test_the_command_measures_what_is_missing_and_prints_one_list(quick, monkeypatch, tmp_path, capsys):
    few = (Point("wind", "none", "train on target"), Point("wind", "none", "CnvxAdap, epsilon 1, tuned for free"))
    monkeypatch.setattr(command, "points", lambda: few)
    asked = ["--json", "--measure", "--splits", "2", "--output", str(tmp_path), "--data", str(tmp_path)]
    kept = []
    for _ in range(2):
        assert command.main(asked) == 0
        kept.append((json.loads(capsys.readouterr().out), (tmp_path / "adaptation.jsonl").read_bytes()))
    assert [list(found) for found in kept[0][0]] == [KEYS]
    assert kept[0] == kept[1]


def test_missing_files_are_named(tmp_path):
    for load in DATASETS.values():
        with pytest.raises(BadInput, match="--data or TANDEM_DATA"):
            load(tmp_path)


def test_committed_results_need_no_data(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TANDEM_DATA", str(tmp_path / "nowhere"))
    assert command.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {entry["table"] for entry in found} == {"1", "2", "3", "6"}
    at_hand = {(point.dataset, point.method) for point in points()}
    for printed in (RELATIVE_ERROR, ACCURACY):  # every number of the paper has a row
        assert {(dataset, method) for dataset, methods in printed.items() for method in methods} <= at_hand
    assert command.main(["--table", "3"]) == 0
    assert "Not at hand" in capsys.readouterr().out


@pytest.mark.thorough
def test_figures_draw_what_is_there(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "SIZES", (50,))
    monkeypatch.setattr(figures, "EPSILONS", (10.0,))
    monkeypatch.setattr(figures, "SETTINGS", {"gas_drift": SMALL_SETTINGS, "adult": SMALL_SETTINGS})
    rows = [figures.measure(name, number, tmp_path) for name, number in figures.missing([], 1)]
    assert all(figures.holds(found) and found.point in figures.names() for found in rows)
    assert figures.missing(rows, 1) == []
    figures.draw(rows, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn >= {f"adaptation-figure{number}.{ending}" for number in (1, 2, 3) for ending in ("svg", "png")}
    assert not scores(found for found in rows if not figures.holds(found))


PAPER = {
    # source rows, target rows, inputs without the constant
    "wind": (6016, 558, 11),
    "adult": (20_380, 9782, 14),
    "south_german_credit": (562, 438, 20),
    "gas_drift": (4397, 2300, 133),
    "wine_quality": (4898, 1599, 11),
    "flights": (11_219, 5149, 16),
}


@for_each("name", PAPER)
def test_sizes(name):
    found = DATASETS[name](public_data())
    source, target, inputs = PAPER[name]
    assert found.source.features.shape == (source, inputs + 1)
    assert found.target.features.shape == (target, inputs + 1)
    assert sum(found.sizes) <= target
    for side in (found.source, found.target):
        assert np.linalg.norm(side.features, axis=1).max() <= NORM
        assert np.abs(side.responses).max() <= 1.0
    if found.task == "classification":
        assert set(np.unique(found.target.responses)) == {-1.0, 1.0}
    if name in ("adult", "south_german_credit"):
        # NCnvxAdap is kept within Lambda: no baseline may be better only because it is longer.
        parts = split(found, 0)
        for side in (parts.source, parts.train):
            free = logistic(side, np.full(len(side), 1 / len(side)), RIDGE)
            assert 0.1 * found.radius < np.linalg.norm(free) <= found.radius


def test_a_target_row_is_scaled_by_itself_and_the_public_source():
    source, target = raw(50), raw(20, 1.0)
    changed = Raw(target.features.copy(), target.responses.copy())
    changed.features[7] = [1e6, -1e6, 1e6]
    changed.responses[7] = -1.0
    before, after = (scaled("toy", "regression", source, side, (5, 5, 5), 1.0) for side in (target, changed))
    others = np.arange(20) != 7
    np.testing.assert_array_equal(before.target.features[others], after.target.features[others])
    np.testing.assert_array_equal(before.target.responses[others], after.target.responses[others])
    np.testing.assert_array_equal(before.source.features, after.source.features)
    assert np.linalg.norm(after.target.features, axis=1).max() <= NORM
    assert (after.target.features[:, -1] == CONSTANT).all()


def _distinct(side):
    return {row.tobytes() for row in side.features}


def test_clean_splits_share_no_row_and_leaky_ones_do():
    parts = {copies: split(pair(copies=8), 3, copies) for copies in ("none", "clean", "leaky")}
    for copies, found in parts.items():
        times = 1 if copies == "none" else 8
        sizes = [len(side) for side in (found.train, found.validation, found.test)]
        assert sizes == [40 * times, 20 * times, 30 * times]
        shared = _distinct(found.train) & _distinct(found.test)
        assert bool(shared) == (copies == "leaky")
    assert _distinct(parts["none"].train) == _distinct(parts["clean"].train)


def test_resampled_rows_come_from_the_training_rows_alone():
    found = resampled(pair(), 0, 500)
    assert len(found.train) == 500
    assert _distinct(found.train) <= _distinct(split(pair(), 0).train)
    assert not _distinct(found.train) & _distinct(found.test)


def unit(generator, count, width):
    rows = generator.normal(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_noise_is_alike_in_all_directions_of_symmetric_matrices():
    rows, mu, runs = unit(np.random.default_rng(2), 50, 3), 0.5, 4000
    noise = np.array([noisy_moment(rows, 1.0, mu, RandomSource.seeded(run)) for run in range(runs)])
    noise -= rows.T @ rows / 50
    np.testing.assert_array_equal(noise, noise.transpose(0, 2, 1))
    deviation = np.sqrt(2.0) / (50 * mu)
    for direction in (np.diag([1.0, 0.0, 0.0]), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / np.sqrt(2.0)):
        along = np.einsum("kij,ij->k", noise, direction)  # of Frobenius norm 1
        assert along.std() == pytest.approx(deviation, rel=5.0 / np.sqrt(2 * runs))
        assert abs(along.mean()) < 5.0 * deviation / np.sqrt(runs)


def test_with_hardly_any_noise_it_matches_as_without():
    generator = np.random.default_rng(3)
    source, target = unit(generator, 300, 3), unit(generator, 4000, 3) * [1.0, 0.5, 0.5]
    domains = Domains(DomainSide(source, np.clip(source @ [0.5, 0.2, 0.0], -1, 1)), DomainSide(target, np.zeros(4000)))
    found = learn(domains, 500.0, 0.1, 1.0, 1.0, RandomSource.seeded(1))
    assert found == pytest.approx([0.5, 0.2, 0.0], abs=1e-6)


def test_least_squares_meets_its_optimality_conditions(generator):
    side = DomainSide(generator.normal(size=(40, 4)), generator.normal(size=40))
    shares = generator.uniform(size=40)
    free, bound = (least_squares(side, shares, radius) for radius in (100.0, 0.3))
    slopes = [side.features.T @ (shares * (side.features @ weights - side.responses)) for weights in (free, bound)]
    np.testing.assert_allclose(slopes[0], 0.0, atol=1e-8)
    # On the sphere the slope points inwards.
    assert np.linalg.norm(bound) == pytest.approx(0.3)
    np.testing.assert_allclose(slopes[1] / np.linalg.norm(slopes[1]), -bound / 0.3, atol=1e-6)


def test_logistic_is_stationary(generator):
    side = DomainSide(generator.normal(size=(60, 3)), generator.choice([-1.0, 1.0], size=60))
    shares = generator.uniform(size=60) / 60
    weights = logistic(side, shares, 1e-3)
    wrong = 1.0 / (1.0 + np.exp(side.responses * (side.features @ weights)))
    slope = 1e-3 * weights - side.features.T @ (shares * wrong * side.responses)
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)


def test_kernel_mean_matching_is_the_programs_optimum(generator):
    source, target = generator.normal(size=(40, 2)), generator.normal(0.7, 1.0, size=(30, 2))
    matching = KernelMeanMatching(source)
    found, slack = matching.weights(target), (np.sqrt(40) - 1.0) / np.sqrt(40)

    def kernel(left, right):
        squares = ((left[:, None] - right[None]) ** 2).sum(axis=2)
        return np.exp(-squares / (2.0 * matching.width**2))

    matrix, slope = kernel(source, source), 40 * kernel(source, target).mean(axis=1)

    def value(weights):
        return 0.5 * weights @ matrix @ weights - slope @ weights

    mean = LinearConstraint(np.full((1, 40), 1.0 / 40), 1.0 - slack, 1.0 + slack)
    program = {"jac": lambda w: matrix @ w - slope, "bounds": [(0.0, 1000.0)] * 40, "constraints": mean}
    slow = minimize(value, np.ones(40), method="SLSQP", options={"maxiter": 500}, **program)
    assert found.min() >= 0.0
    assert abs(found.mean() - 1.0) <= slack + 1e-6
    assert value(found) <= value(slow.x) + 2e-3 * abs(value(slow.x))
    # It matches: the mean of the weighted source is closer to the target's than the source's.
    means = found @ source / found.sum(), source.mean(axis=0)
    matched, plain = (np.linalg.norm(mean - target.mean(axis=0)) for mean in means)
    assert matched < 0.5 * plain


def test_discrepancy_minimization_is_certified(generator):
    source, target = generator.normal(size=(80, 4)), generator.normal(size=(50, 4)) * [2.0, 1.0, 0.5, 1.0]
    found = match(source, target, iterations=400)
    wanted = target.T @ target / 50
    start = np.abs(np.linalg.eigvalsh(wanted - source.T @ source / 80)).max()
    at_found = np.abs(np.linalg.eigvalsh(wanted - (source * found.shares[:, None]).T @ source)).max()
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.shares.min() >= 0.0
    assert found.norm == pytest.approx(at_found)
    assert found.least <= found.norm <= found.least + 0.01 * start


@for_each("penalties", [Penalties(0, 0, 0), Penalties(0, 0.8, 0), Penalties(0, 0, 2), Penalties(0, 0.5, 1)])
def test_shares_are_the_least_of_a_slow_search(generator, penalties):
    caps, costs = generator.uniform(0.02, 0.2, size=8), generator.normal(-0.4, 0.5, size=8)
    found = best_shares(costs, caps, penalties)
    assert (found >= 0.0).all()
    assert (found <= caps + 1e-12).all()
    box = [(0.0, cap) for cap in caps]
    for start in (caps, 0.5 * caps, found):
        slow = minimize(lambda q: objective(costs, q, penalties), start, bounds=box, method="Powell")
        assert objective(costs, found, penalties) <= slow.fun + 1e-5


def test_turns_never_raise_the_objective(generator):
    side = DomainSide(generator.normal(size=(60, 3)), generator.normal(size=60))
    found = alternate(
        lambda shares, start: least_squares(side, shares, 1.0),
        lambda weights: (side.features @ weights - side.responses) ** 2,
        np.repeat([0.3, 0.0], 30),
        np.full(60, 1.0 / 60),
        Penalties(1.0, 0.2, 0.5),
    )
    assert len(found.objectives) > 1
    assert (np.diff(found.objectives) <= 1e-9).all()


def test_the_noise_of_minibatches_is_private_and_little_more():
    noise = minibatch_sgd.noise_for(2.0, 0.01, 100, 0.2)
    event = SubsampledSteps(count=100, tv_bound=0.2, ratio=2.0 / noise)
    assert minibatch_sgd.epsilon_of_steps(event, 0.01) <= 2.0
    less = SubsampledSteps(count=100, tv_bound=0.2, ratio=2.0 / (0.99 * noise))
    assert minibatch_sgd.epsilon_of_steps(less, 0.01) > 2.0


def test_gradient_descent_is_least_squares_in_the_end_and_not_before(generator):
    features = generator.normal(size=(200, 3)) @ np.diag([1.0, 0.3, 0.1])
    responses = features @ [1.0, 1.0, 1.0] + 0.1 * generator.normal(size=200)
    exact = np.linalg.lstsq(features, responses, rcond=None)[0]
    few, many = (descend(features, responses, np.full(200, 1.0 / 200), steps) for steps in (10, 20_000))
    np.testing.assert_allclose(many, exact, atol=1e-8)
    assert np.linalg.norm(few - exact) > 0.5
    shares = np.full(200, 1.0 / 200)
    averages = [as_printed(features, responses, shares, 2.0, steps) for steps in (100, 10_000)]
    errors = [float(np.mean((features @ weights - responses) ** 2)) for weights in (*averages, exact)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[1] - errors[2] < 0.1 * (errors[0] - errors[2])
    inside = as_printed(features, responses, shares, 0.5, 10_000)
    assert 0.45 < np.linalg.norm(inside) <= 0.5


@for_each("task", ["regression", "classification"])
@for_each("name", BASELINES)
def test_baselines_learn_on_a_small_pair(task, name):
    small = pair(task)
    parts = split(small, 0)
    chosen = best(parts, BASELINES[name](small, parts))
    found = score(task, parts.test, chosen.weights)
    assert found < 0.5 * np.var(parts.test.responses) if task == "regression" else found > 0.8
