"""Learners after a first look at records: what it pays and shows; steps on everybody, least squares, class scores."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from common.core.arrays import Floats
from common.core.errors import BadScenario, BudgetExceeded
from common.learners.half_spaces import FIRST
from common.local.hypotheses.composed import column_classes
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.accountants import grouped
from common.privacy.budget import cost, open_budget
from common.privacy.events import Composed, Gaussian
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.curator import planned_events
from curator.learners.base import CallSizes, Learner, learn_from, parse_learner
from curator.learners.half_spaces import Discriminant, FullBatch, LeastSquares
from curator.learners.preconditioning import Preconditioner, precondition
from curator.mechanisms import gaussian_noise, sums
from curator.mechanisms.access import Access
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from tests.curator.learners.given import drawn, learned
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


def look_of(learner: Discriminant | FullBatch, records: Records, seed: int = 1) -> Preconditioner:
    access = Access(learner.event(1.0), drawn(records), RandomSource.seeded(seed))
    return precondition(access, learner.shares[0], learner.norm)


def looked(records: Records, **settings: float | None) -> Preconditioner:
    return look_of(Discriminant.parse({"norm": 2.0, "mu": 0.3, **settings}), records)


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
    shown = seen.transform(records)
    np.testing.assert_array_equal(shown.labels, records.labels)
    about = seen.half_space(weights, 0.25)
    assert about.margins(records.features) == pytest.approx(seen.shrink * shown.features @ weights - 0.25, abs=2e-3)


@for_each("norm", [2.0, None])
def test_what_varies_is_brought_to_one_scale_and_what_does_not_is_not_enlarged(norm: float | None) -> None:
    """With noise that decides nothing: sqrt(v)/(v + .1 avg) is below 1.6/sqrt(avg), where 1/sqrt(v) has no bound."""
    seen = looked(people(20_000), mu=50.0, norm=norm)
    assert seen.mean == pytest.approx(MIDDLE, abs=0.01)
    assert seen.scale[:4] * SPREAD[:4] == pytest.approx(1.0, abs=0.35)
    assert seen.scale.max() < 1.6 / np.sqrt(np.square(SPREAD).mean())
    lengths = np.linalg.norm(seen.transform(people(20_000)).features, axis=1)
    assert 0.5 < np.mean(lengths > seen.radius) < 0.8


@for_each("width", [5, 20])
@for_each("n", [50, 100, 1000])
def test_of_few_people_too_the_radius_is_about_as_far_as_they_are_from_a_noisy_mean(n: int, width: int) -> None:
    """It is four fifths of the root of the mean squared length, within noise: of 50 people it was a fifteenth."""
    rng, ratios = np.random.default_rng(3), []
    learner = Discriminant.parse({"mu": 0.35})
    for seed in range(10):
        records = Records(rng.random((n, width)).astype(np.float32), np.ones(n, dtype=np.int8))
        seen = look_of(learner, records, seed)
        ratios.append(math.sqrt(np.square(seen.transform(records).features).sum(axis=1).mean()) / seen.radius)
    assert 0.8 < np.median(ratios) < 1.4
    assert max(ratios) < 2.2


@for_each("features", [np.ones((50, 6)), np.zeros((1, 6)), np.full((9, 6), np.nan), np.full((9, 6), 1e38)])
@for_each("mu", [1e-5, 1.0, 100.0])
@for_each("norm", [1.0, 2.0, None])
def test_any_records_give_a_radius_and_a_model(features: Floats, mu: float, norm: float | None) -> None:
    records = Records(features.astype(np.float32), np.ones(len(features), dtype=np.int8))
    seen = looked(records, mu=mu, norm=norm)
    assert np.isfinite(seen.mean).all()
    assert 0.0 < seen.radius < np.inf
    assert (seen.scale > 0.0).all()
    for learner in (Discriminant(mu=mu, norm=norm), FullBatch(mu=mu, norm=norm)):
        found: Any = learned(learner, records, 2)
        assert np.isfinite([*found.weights, found.threshold]).all()
    found = regression(records, mu=mu, norm=norm)
    assert np.isfinite([*found.weights, found.intercept, found.center, found.spread]).all()
    scored = scores(records, mu=mu, norm=norm).hypothesis.scores_by_class(np.zeros((1, 6), np.float32))
    assert np.isfinite(scored).all()


def test_people_who_lie_close_together_far_from_zero_are_told_apart() -> None:
    """Without the look nearly all of the noise is for room in which nobody is."""
    others, ranked = people(20_000, 9), np.zeros(2)
    for seed in range(6):
        for place, share in enumerate((0.0, 0.15)):
            learner = Discriminant(mu=0.25, norm=2.0, precondition=share)
            found = learned(learner, people(1500, seed), seed)
            ranked[place] += roc_auc_score(others.labels, found.margins(others.features)) / 6
    assert ranked[1] > 0.9
    assert ranked[0] < ranked[1] - 0.15


@for_each("kind", [Discriminant, FullBatch])
def test_weights_of_a_referee_change_nothing_that_it_learns(kind: type[Learner]) -> None:
    """The sample as it is: a reweighed record counts once, so the sensitivity holds whatever was reweighed."""
    records, learner = people(400), kind.parse({"mu": 1.0, "norm": 2.0})
    sample, heavy = LocalSample.from_records(records), Reweighing(400, 0.25, 5.0)
    heavy.update(sample, HypothesisLoss(Linear(weights=(1.0,), threshold=0.7)))
    found = learn_from(learner, heavy.sampler(sample), RandomSource.seeded(3))
    assert found == learned(learner, records, 3)


def test_steps_on_everybody_are_those_of_gradient_descent() -> None:
    """Beside next to no noise, in plain NumPy: a start at the log odds, clipped gradients, the last half's average."""
    records = people(300)
    learner = FullBatch(mu=100.0, norm=2.0, steps=9)
    found = learned(learner, records)
    seen = look_of(learner, records)
    rows = seen.transform(records).features.astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), seen.radius)
    rows = np.hstack([rows, np.full((300, 1), 0.25)])
    place, late = np.zeros(6), []
    place[-1] = 4.0 * math.log((records.labels > 0).sum() / (records.labels < 0).sum())
    for number in range(9):
        gradients = -(records.labels / (1.0 + np.exp(records.labels * (rows @ place))))[:, None] * rows
        gradients *= np.minimum(1.0, 0.5 / np.linalg.norm(gradients, axis=1, keepdims=True))
        place = place - 24.0 * gradients.mean(axis=0)
        late += [place] if number >= 4 else []
    expected = np.mean(late, axis=0)
    assert np.array(found.weights) / seen.scale / seen.shrink * seen.radius == pytest.approx(expected[:-1], abs=0.05)
    assert seen.mean @ found.weights - found.threshold == pytest.approx(0.25 * expected[-1], abs=0.05)


def test_steps_are_the_root_of_n_mu() -> None:
    assert [FullBatch(mu=0.25, norm=1.0).count(people) for people in (1, 400, 6400, 10**9)] == [10, 10, 40, 200]
    assert FullBatch(mu=0.25, norm=1.0, steps=3).count(6400) == 3


@for_each(("noise", "at_most", "without"), [(1.0, 0.35, 0.43), (0.0, 0.23, 0.38)])
def test_wide_data_is_learned_from_as_the_table_gives_it(noise: float, at_most: float, without: float) -> None:
    """d = 200, n = 4,000 at epsilon = 1, where the discriminant without a first look is little better than chance."""
    direction = np.random.default_rng(4).normal(size=200)

    def wide(n: int, seed: int) -> Records:
        rng = np.random.default_rng(seed)
        features = rng.random((n, 200), dtype=np.float32)
        scores = (features - 0.5) @ direction * (2.0 * math.sqrt(12.0) / np.linalg.norm(direction))
        labels = np.where(scores + noise * rng.logistic(size=n) > 0.0, 1, -1).astype(np.int8)
        return Records(features, labels)

    others, mistakes = wide(20_000, 9), np.zeros(2)
    learners: list[Learner] = [FullBatch(mu=0.24), Discriminant(mu=0.24, norm=math.sqrt(200.0), precondition=0.0)]
    for seed in range(3):
        for place, learner in enumerate(learners):
            found = learned(learner, wide(4000, seed), seed)
            mistakes[place] += found.mistakes(others).mean() / 3
    assert mistakes[0] < at_most
    assert mistakes[1] > without


def descending(**settings: Any) -> Any:
    return parse_learner({"name": "sgd", "steps": 3000, "noise": 2.0, "diameter": 20.0, **settings})


def test_gradient_steps_after_a_look_are_steps_on_what_was_looked_at() -> None:
    """Exactly: the same noise, on records that were centred, scaled and shortened beforehand."""
    records, source = people(2000), RandomSource.seeded(1)
    learner = descending(look=0.3, norm=2.0)
    found = learned(learner, records)
    seen = precondition(Access(Gaussian(mu=0.3), drawn(records), source), 0.3, 2.0)
    inside = seen.clip(records)
    assert np.linalg.norm(inside.features, axis=1).max() <= 1.0 + 2.0**-20
    expected = learner.descent.run(drawn(inside), source.derive("release", 2), np.zeros(6))
    assert found == seen.half_space(expected[:5] / seen.radius, -expected[5])
    assert found.mistakes(people(4000, 2)).mean() < 0.3 < learned(descending(), records).mistakes(records).mean()


def test_what_is_no_number_counts_as_the_mean_after_a_look() -> None:
    records = people(4)
    seen, odd = looked(records), records.features.copy()
    odd[1, 0], odd[2, 1] = np.nan, np.inf
    inside = seen.clip(Records(odd, records.labels)).features
    assert (inside[1:3] == 0.0).all()
    assert (inside[[0, 3]] == seen.clip(records).features[[0, 3]]).all()


def test_a_look_and_steps_cost_what_both_do() -> None:
    """Composition is adaptive: the event has both parts, and accountants price each of them."""
    event = descending(look=0.3, norm=2.0).event(1e-3)
    assert event == Composed(parts=(Gaussian(mu=0.3), descending().event(1e-3)))
    both = cost(grouped([event, event]), 1e-6)
    assert both == cost([(part, 2) for part in event.parts], 1e-6)
    assert both > max(cost([(part, 2)], 1e-6) for part in event.parts)
    budget = open_budget(both, 1e-6, [event, event])
    budget.admit([], event)
    budget.admit([event], event)
    with pytest.raises(BudgetExceeded):
        budget.admit([event, event], event)
    assert budget.amount(event) == pytest.approx(sum(budget.amount(part) or 0.0 for part in event.parts))


def test_a_planned_look_takes_its_share_and_steps_what_is_left() -> None:
    asked = "curator.learner={name: sgd, steps: 20000, noise: plan, diameter: 20, look: plan, norm: 2.0}"
    curator = resolve(load("ball", ["curator.n=20000", "curator.rounds=2", "curator.kappa=0.2", asked])).curator
    settled: Any = parse_learner(curator.learner)
    events = planned_events(settled, curator.n, curator.kappa, curator.eta, 2)
    assert curator.epsilon is not None
    assert 0.95 * curator.epsilon < cost(grouped(events), curator.delta or 0.0) <= curator.epsilon
    whole = settled.look * math.sqrt(2 / FIRST)
    assert cost([(Gaussian(mu=whole), 1)], curator.delta or 0.0) == pytest.approx(curator.epsilon, rel=1e-3)


@for_each(
    ("settings", "says"),
    [
        ({"norm": 2.0}, "norm is that of a first look"),
        ({"look": 0.1, "warm": True}, "begin at 0"),
        ({"look": 0.1, "loss": "squared"}, "no squared loss"),
        ({"look": 0.1, "domain": "box"}, "no box"),
        ({"look": -0.1}, "look"),
    ],
)
def test_a_look_that_does_not_fit_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(BadScenario, match=says):
        descending(**settings)


def responding(n: int, seed: int = 1) -> Records:
    """Return people of three correlated features and one that never varies; the last feature is the response."""
    rng = np.random.default_rng(seed)
    x = np.clip(0.6 + 0.1 * rng.normal(size=(n, 3)) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.3]], 0.0, 1.0)
    y = np.clip(0.4 + 0.8 * (x[:, 0] - 0.6) - 0.5 * (x[:, 1] - 0.6) + 0.04 * rng.normal(size=n), 0.0, 1.0)
    return Records(np.column_stack([x, np.full(n, 0.5), y]).astype(np.float32), np.ones(n, dtype=np.int8))


def regression(records: Records, seed: int = 1, **settings: Any) -> Any:
    return learned(LeastSquares(**{"norm": 2.3, "mu": 100.0, **settings}), records, seed)


@for_each(("precondition", "off"), [(0.0, 0.02), (0.15, 0.1)])
def test_without_noise_it_is_least_squares_and_its_predictions_lie_as_it_says(precondition: float, off: float) -> None:
    """Records that are shortened have smaller residuals on the far side, so weights are a tenth too small at most."""
    records = responding(20_000)
    found = regression(records, precondition=precondition)
    best = LinearRegression().fit(records.features[:, :4], records.features[:, 4])
    assert found.weights[:3] == pytest.approx(best.coef_[:3], abs=off)
    values = found.values(records.features)
    assert values == pytest.approx(best.predict(records.features[:, :4]), abs=0.05)
    assert found.center == pytest.approx(values.mean(), abs=0.01)
    assert found.spread == pytest.approx(values.std(), rel=0.15)


def test_with_noise_a_regression_errs_little_more_and_says_no_spread_that_is_far_off() -> None:
    others = responding(10_000, 9)
    for seed in range(4):
        found = regression(responding(3000, seed), seed, mu=0.25)
        values = found.values(others.features)
        assert np.mean((values - others.features[:, 4]) ** 2) < 0.6 * others.features[:, 4].var()
        assert 0.5 < found.spread / values.std() < 2.0


SHARES = (0.6, 0.3, 0.1)
CLASSED: Any = {"classes": {"first": 3, "count": 3}}


def classed(n: int, seed: int = 1, shares: tuple[float, ...] = SHARES) -> Records:
    """Return people of three classes in [0, 1]^3, normal, that stand in three columns behind the features."""
    rng = np.random.default_rng(seed)
    own = rng.choice(3, size=n, p=shares)
    means = np.array([[0.35, 0.5, 0.5], [0.6, 0.35, 0.5], [0.6, 0.6, 0.55]])
    x = np.clip(means[own] + 0.1 * rng.normal(size=(n, 3)) @ [[1.0, 0.4, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.5]], 0, 1)
    return Records(np.column_stack([x, np.eye(3)[own]]).astype(np.float32), np.ones(n, dtype=np.int8))


def scores(records: Records, seed: int = 1, **settings: Any) -> Any:
    learner = Discriminant(**{"mu": 100.0, **CLASSED, **settings})
    access = Access(learner.event(1.0), drawn(records), RandomSource.seeded(seed), learner.shown_features)
    found = learner.learned(access, None, None)
    access.close()
    assert learner.can_give(found.hypothesis)
    return found


@for_each("precondition", [0.0, 0.15])
def test_without_noise_it_is_fisher_s_and_scores_lie_as_the_release_says(precondition: float) -> None:
    records = classed(20_000)
    found = scores(records, precondition=precondition)
    own, model = column_classes(records.features, 3, 3), found.hypothesis
    best = LinearDiscriminantAnalysis().fit(records.features[:, :3], own)
    assert (model.classes(records.features) == best.predict(records.features[:, :3])).mean() > 0.97
    apart = np.abs(model.probabilities(records.features) - best.predict_proba(records.features[:, :3]))
    assert apart.mean() < 0.03
    assert found.scores.shares == pytest.approx(SHARES, abs=0.01)
    scored = model.scores_by_class(records.features)
    for number in range(3):
        mean = scored[own == number].mean(axis=0)
        told = np.array(found.scores.means[number])
        assert told - told.mean() == pytest.approx(mean - mean.mean(), abs=0.6)


def test_with_noise_scores_err_little_more_and_a_class_that_nobody_has_takes_nobody() -> None:
    others = classed(10_000, 9)
    for seed in range(4):
        found = scores(classed(3000, seed), seed, mu=0.25).hypothesis
        assert found.mistakes(others).mean() < 0.25
    found = scores(classed(3000, 1, (0.6, 0.4, 0.0)), mu=0.25)
    assert found.scores.shares[2] < 0.02
    assert (found.hypothesis.classes(classed(3000, 2, (0.6, 0.4, 0.0)).features) == 2).mean() < 0.02


def test_no_more_noise_is_drawn_for_classes_than_the_event_pays_for(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    draw = gaussian_noise.whole_normals
    monkeypatch.setattr(sums, "whole_normals", lambda *given: (counted.append(given[1]), draw(*given))[1])
    scores(classed(200))
    assert 0 < sum(counted) <= Discriminant(mu=1.0, **CLASSED).noise_numbers(CallSizes(200, 0, 6, 4))


def test_features_that_are_not_there_are_refused_and_plans_give_the_whole_budget() -> None:
    kind = np.dtype(np.float32)
    with pytest.raises(BadScenario, match="one is too few"):
        LeastSquares(mu=1.0, norm=1.0).check(kind, 1)
    with pytest.raises(BadScenario, match="classes stand in features 3 to 5, records have 5"):
        Discriminant(mu=1.0, **CLASSED).check(kind, 5)
    for name in ("portfolio-regression", "portfolio-classes"):
        learner: Any = parse_learner(resolve(load(name, [])).curator.learner)
        assert 0.999 < cost([(learner.event(1.0), 1)], 1e-6) <= 1.0, name


@for_each("kind", [FullBatch, Discriminant])
def test_a_constant_at_an_end_of_the_box_hardly_moves_the_scores_of_people_who_have_another(
    kind: type[Learner],
) -> None:
    """A category that all of S share, and nobody of T: the weight that noise gives it moves all scores of T.

    Without the numbers of people at the ends they moved by 1.4 and 1.7 of their own deviations.
    """
    moved, ranked = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        features = np.clip(0.5 + 0.12 * rng.normal(size=(3000, 4)), 0.0, 1.0).astype(np.float32)
        signal = (features[:, 1] - features[:, 2]) / 0.12 + rng.normal(size=3000)
        labels = np.where(signal > 0.0, 1, -1).astype(np.int8)
        features[:1000, 0], features[1000:, 0] = 0.0, 1.0
        found: Any = learned(kind.parse({"mu": 0.3}), Records(features[:1000], labels[:1000]), seed)
        margins = found.margins(features)
        moved.append(abs(margins[1000:].mean() - margins[:1000].mean()) / margins[:1000].std())
        ranked.append(roc_auc_score(labels[1000:], margins[1000:]))
    assert np.mean(moved) < 0.6
    assert np.mean(ranked) > 0.88


def test_of_what_varies_categories_too_keep_their_weight() -> None:
    """A number, a category of every other person and one of a tenth of them, and a constant: by 40 first looks."""
    rng = np.random.default_rng(5)
    features = np.column_stack([rng.random(2000), rng.random(2000) < 0.5, rng.random(2000) < 0.1, np.zeros(2000)])
    records, learner = Records(features.astype(np.float32), np.ones(2000, dtype=np.int8)), Discriminant(mu=0.3)
    scales = sum(look_of(learner, records, seed).scale / 40 for seed in range(40))
    variances = features[:, :3].var(axis=0)
    plain = np.sqrt(variances) / (variances + 0.1 * features.var(axis=0).mean())
    assert (scales[:3] > 0.9 * plain).all()
    assert scales[3] < scales[:3].min() / 2.0
