"""Scores of several classes from one release: without noise the textbook's, and they lie as the release says."""

from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from common.core.errors import BadScenario
from common.local.hypotheses.composed import column_classes
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.budget import cost
from common.scenario.loading import load
from common.scenario.plan import resolve
from curator.learners.base import CallSizes, parse_learner
from curator.learners.half_spaces import Discriminant
from curator.mechanisms import gaussian_noise
from curator.mechanisms.access import Access
from curator.sample.reweighing import Reweighing
from tests.tiers import for_each

SHARES = (0.6, 0.3, 0.1)


def people(n: int, seed: int = 1, shares: tuple[float, ...] = SHARES) -> Records:
    """Return people of three classes in [0, 1]^3, normal, that stand in three columns behind the features."""
    rng = np.random.default_rng(seed)
    own = rng.choice(3, size=n, p=shares)
    means = np.array([[0.35, 0.5, 0.5], [0.6, 0.35, 0.5], [0.6, 0.6, 0.55]])
    x = np.clip(means[own] + 0.1 * rng.normal(size=(n, 3)) @ [[1.0, 0.4, 0.0], [0.0, 1.0, 0.2], [0.0, 0.0, 0.5]], 0, 1)
    return Records(np.column_stack([x, np.eye(3)[own]]).astype(np.float32), np.ones(n, dtype=np.int8))


def learned(records: Records, seed: int = 1, **settings: Any) -> Any:
    learner = Discriminant(**{"mu": 100.0, "classes": {"first": 3, "count": 3}, **settings})
    sampler = Reweighing(len(records), None, 1.0).sampler(records)
    access = Access(learner.event(1.0), sampler, RandomSource.seeded(seed), learner.shown_features)
    found = learner.learned(access, None, None)
    access.close()
    assert learner.can_give(found.hypothesis)
    return found


@for_each("precondition", [0.0, 0.15])
def test_without_noise_it_is_fisher_s_and_scores_lie_as_the_release_says(precondition):
    records = people(20_000)
    found = learned(records, precondition=precondition)
    own, model = column_classes(records.features, 3, 3), found.hypothesis
    best = LinearDiscriminantAnalysis().fit(records.features[:, :3], own)
    assert (model.classes(records.features) == best.predict(records.features[:, :3])).mean() > 0.97
    apart = np.abs(model.probabilities(records.features) - best.predict_proba(records.features[:, :3]))
    assert apart.mean() < 0.03
    assert found.scores.shares == pytest.approx(SHARES, abs=0.01)
    scores = model.scores_by_class(records.features)
    for number in range(3):
        mean = scores[own == number].mean(axis=0)
        told = np.array(found.scores.means[number])
        assert told - told.mean() == pytest.approx(mean - mean.mean(), abs=0.6)


def test_with_noise_it_errs_little_more_and_a_class_that_nobody_has_takes_nobody():
    others = people(10_000, 9)
    for seed in range(4):
        found = learned(people(3000, seed), seed, mu=0.25).hypothesis
        assert found.mistakes(others).mean() < 0.25
    found = learned(people(3000, 1, (0.6, 0.4, 0.0)), mu=0.25)
    assert found.scores.shares[2] < 0.02
    assert (found.hypothesis.classes(people(3000, 2, (0.6, 0.4, 0.0)).features) == 2).mean() < 0.02


@for_each("features", [np.ones((50, 6)), np.zeros((2, 6)), np.full((9, 6), np.nan), np.full((9, 6), 1e38)])
@for_each("mu", [1e-5, 1.0, 100.0])
def test_any_records_give_scores(features, mu):
    found = learned(Records(features.astype(np.float32), np.ones(len(features), dtype=np.int8)), mu=mu, norm=1.0)
    assert np.isfinite(found.hypothesis.scores_by_class(np.zeros((1, 6), np.float32))).all()


def test_no_more_noise_is_drawn_than_the_event_pays_for(monkeypatch):
    drawn: list[int] = []
    draw = gaussian_noise.fine_normals

    def counted(count: int, source: RandomSource) -> Any:
        drawn.append(count)
        return draw(count, source)

    monkeypatch.setattr(gaussian_noise, "fine_normals", counted)
    learned(people(200))
    learner = Discriminant(mu=1.0, classes={"first": 3, "count": 3})
    assert sum(drawn) <= learner.noise_numbers(CallSizes(200, 0, 6, 4))


def test_columns_that_are_not_there_are_refused_and_a_plan_gives_the_whole_budget():
    with pytest.raises(BadScenario, match="classes stand in features 3 to 5, records have 5"):
        Discriminant(mu=1.0, classes={"first": 3, "count": 3}).check(np.dtype(np.float32), 5)
    learner: Any = parse_learner(resolve(load("portfolio-classes", [])).curator.learner)
    assert 0.999 < cost([(learner.event(1.0), 1)], 1e-6) <= 1.0
