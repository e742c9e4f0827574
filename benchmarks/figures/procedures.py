"""Algorithm 1 with other learners and another oracle: the paper's procedure as it is printed, and that of its authors.

Tandem's own is a run of a scenario. No party of Tandem offers what these have: a learner that stops early looks at the
private sample in a way that nothing protects, and an oracle with fresh people for each query never ends. So they are
played here, on the sample, the weights and the draws of a curator.

What the authors' code does is taken from a reading of it; docs/figures.md says for each figure what was read, and what
is filled in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.data.population import PopulationSpec, open_records
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss, Loss, evaluate
from common.local.records import Records
from common.numerics.randomness import RandomSource, subseed
from curator.learners.half_spaces import Sgd
from curator.mechanisms.gradient_steps import coordinates, descend
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing, Sampler
from curator.sample.rows import GatheredRows

FRESH = 50_000
"""People of T who answer one query, and no other."""
CHECKED = 1000
"""Steps of descent after which the loss on the weighted sample is looked at again."""

LearnOnce = Callable[[Sampler, RandomSource], Linear]


@dataclass(frozen=True)
class Played:
    """What came of a run: the last hypothesis, and its loss and share of mistakes among each query's people.

    ``same`` is the number of rounds at the beginning that gave one and the same hypothesis.
    """

    hypothesis: Linear
    losses: list[float]
    mistakes: list[float]
    same: int


def play(
    people: Records,
    target: PopulationSpec,
    learn: LearnOnce,
    eta: float,
    seed: int,
    ended: Callable[[list[float]], bool],
    tested: Loss = "zero-one",
) -> Played:
    """Run Algorithm 1, reweighing by mistakes, until ``ended`` says so of the ``tested`` losses on T so far.

    Each hypothesis is judged by :data:`FRESH` new people. One that did not change is not asked about again.
    """
    sample, law = LocalSample.from_records(people), Reweighing(len(people), None, eta)
    source = RandomSource.seeded(seed, "procedure")
    losses: list[float] = []
    mistakes: list[float] = []
    hypothesis: Linear | None = None
    same = 0
    while True:
        number = len(losses) + 1
        before, hypothesis = hypothesis, learn(law.sampler(sample), source.derive(f"round {number}"))
        if hypothesis == before:
            losses.append(losses[-1])
            mistakes.append(mistakes[-1])
            same += same == number - 1
        else:
            fresh = open_records(target, None, subseed(seed, f"query {number}"), FRESH).records(np.arange(FRESH))
            losses.append(float(evaluate(tested, hypothesis, fresh).mean()))
            mistakes.append(float(hypothesis.mistakes(fresh).mean()))
            same += number == 1
        if ended(losses):
            return Played(hypothesis, losses, mistakes, same)
        law.update(sample, HypothesisLoss(hypothesis))


def linear_svc(draws: int) -> LearnOnce:
    """Return LinearSVC with C = 10^30 on so many draws (equal ones as one with a weight), as printed in Appendix C."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    def learn(sampler: Sampler, source: RandomSource) -> Linear:
        found = sampler.distinct(draws, source)
        records = found.take(slice(None))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            machine = LinearSVC(loss="hinge", C=1e30, random_state=0)
            machine.fit(records.features, records.labels, sample_weight=found.times)
        return _linear(machine.coef_[0], machine.intercept_[0])

    return learn


def sgd_classifier(draws: int) -> LearnOnce:
    """Return SGDClassifier on the hinge loss with alpha = 10^-30 on so many draws, as in the authors' code."""
    from sklearn.linear_model import SGDClassifier

    def learn(sampler: Sampler, source: RandomSource) -> Linear:
        records = sampler.draws(draws, source.derive("draws"))
        state = int(source.derive("order").words(1)[0] >> np.uint64(33))
        machine = SGDClassifier(loss="hinge", alpha=1e-30, random_state=state).fit(records.features, records.labels)
        return _linear(machine.coef_[0], machine.intercept_[0])

    return learn


def _linear(weights: Floats, intercept: float) -> Linear:
    return Linear(weights=tuple(map(float, weights)), threshold=-float(intercept))


def stopped_descent(learner: Sgd, level: float) -> LearnOnce:
    """Return a learner's descent from its start, last iterate, which stops early.

    It stops after the learner's steps, or as soon as the weighted sample's share of mistakes is at most ``level``,
    which is looked at before the first step and then every :data:`CHECKED` steps.
    """

    def learn(sampler: Sampler, source: RandomSource) -> Linear:
        width = learner.width(sampler.dimension)
        rule, away, total = learner.descent.rule(width), coordinates(width, np.float64), np.zeros(width)
        for done in range(0, learner.steps, CHECKED):
            hypothesis = _linear(learner.start + away[:-1], learner.intercept * (learner.start + away[-1]))
            if weighted_mistakes(sampler, hypothesis) <= level:
                return hypothesis
            draws = sampler.draws(min(CHECKED, learner.steps - done), source.derive(f"after {done}"))
            descend(GatheredRows.from_records(draws), None, away, total, done, rule)
        return _linear(learner.start + away[:-1], learner.intercept * (learner.start + away[-1]))

    return learn


def weighted_mistakes(sampler: Sampler, hypothesis: Linear) -> float:
    """Return err_mu of a hypothesis, exactly: a function of the private sample that nothing protects."""
    parts = [(float(w @ hypothesis.mistakes(records)), float(w.sum())) for records, w in sampler.weighted()]
    wrong, all_of_it = np.sum(parts, axis=0)
    return float(wrong / all_of_it)
