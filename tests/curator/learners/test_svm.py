"""The learner of Appendix C: draws of mu, separated, from the hypothesis released last."""

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.data.distributions.gaussians import GaussianHalfSpace
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.numerics.randomness import RandomSource
from curator.learners import svm
from curator.learners.base import learn_from, parse_learner
from curator.learners.svm import Svm
from curator.weights.reweighing import Reweighing
from tests.tiers import for_each


def sampler(n=6000, d=60):
    people = GaussianHalfSpace(side="source", d=d, close=4, sigma_source=1.0, sigma_target=0.1, share=0.1)
    records = people.draw(1, np.arange(n))
    return Reweighing(n, None, 0.01).sampler(records), records


def test_its_hypothesis_makes_no_mistake_on_its_own_draws():
    draws, records = sampler()
    source = RandomSource.seeded(1)
    learned = learn_from(Svm(draws=4000), draws, RandomSource.seeded(1), None)
    assert learned.mistakes(draws.draws(4000, source.derive("draws"))).sum() == 0
    assert 0 < learned.mistakes(records).mean() < 0.02


def test_without_intercept_the_threshold_is_zero():
    draws, _ = sampler()
    learned: Any = learn_from(Svm(draws=500, intercept=0.0), draws, RandomSource.seeded(1), None)
    assert learned.threshold == 0.0
    assert len(learned.weights) == 60


def test_it_begins_at_the_hypothesis_released_last(monkeypatch):
    draws, _ = sampler()
    begun = []
    minimize = svm.minimize  # type: ignore[attr-defined]
    monkeypatch.setattr(svm, "minimize", lambda *all, **more: begun.append(all[1]) or minimize(*all, **more))
    learner = Svm(draws=500, intercept=2.0)
    first: Any = learn_from(learner, draws, RandomSource.seeded(1), None)
    learn_from(learner, draws, RandomSource.seeded(2), first)
    np.testing.assert_allclose(begun[1], [*first.weights, -first.threshold / 2.0], rtol=1e-12)
    # Another kind of hypothesis, or of another dimension, is no start.
    learn_from(learner, draws, RandomSource.seeded(3), Constant(label=1))
    learn_from(learner, draws, RandomSource.seeded(3), Linear(weights=(1.0,) * 5, threshold=0.0))
    assert [not start.any() for start in begun] == [True, False, True, True]


def test_at_the_minimum_the_start_is_forgotten():
    draws, _ = sampler()
    learner = Svm(draws=1000, penalty=1.0, until="minimum")
    one: Any = learn_from(learner, draws, RandomSource.seeded(4), None)
    other = learn_from(learner, draws, RandomSource.seeded(4), Linear(weights=(3.0,) * 60, threshold=1.0))
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-4, atol=1e-6)  # type: ignore[attr-defined]


@for_each("wrong", [{"draws": 0}, {"penalty": 0.0}, {"penalty": 1e30}, {"until": "exact"}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(BadScenario, match=next(iter(wrong))):
        parse_learner({"name": "svm", "draws": 100} | wrong)
