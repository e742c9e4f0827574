"""A private choice under audit: the best of a secret number of runs, and a learner that is chosen that way.

The claim is what the accountant says of the choice. The twins choose as it is often done: at the price of one run, or
by scores without noise.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from benchmarks.audits.subjects import registered
from common.core.arrays import AnyArray
from common.local.hypotheses.hypothesis import Linear
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from common.privacy.budget import cost
from common.privacy.events import PrivateSelection
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.selection import Poisson, geometric
from curator.learners.base import learn_from, parse_learner
from curator.mechanisms import sums
from curator.mechanisms.selection import choose
from curator.sample.reweighing import Reweighing
from deploy.auditing import Case

AUDITED = {
    "access LossSum": ("chosen",),
    "access choose": ("chosen", "a choice"),
}
"""The cases here of each way to use people, and of each operation."""

LAW = Poisson(rate=15.0, most=40)


def best(mu: float) -> Subject:
    """The best of K noisy answers, each its own score: the answer where all runs are equally good."""

    def subject(value: float, runs: int, source: RandomSource) -> AnyArray:
        def once(run: RandomSource) -> float:
            def fit(settings: object, randomness: RandomSource) -> float:
                return value + float(randomness.normals(1)[0]) / mu

            return choose(fit, lambda answer, _: answer, {}, LAW, run, constant_time=False).output

        return np.array([once(source.derive(run)) for run in range(runs)])

    return subject


def choice_case() -> Case:
    """Charging one run is how hyperparameters are tuned where nobody counts the runs."""
    mu, delta = 0.35, 0.1
    claim = cost([(PrivateSelection(mu=mu, law=LAW), 1)], delta)
    twins = {"charged as one run": best(mu_allowed(claim, delta))}
    return Case("a choice", claim, (1.0, 0.0), best(mu), 900, delta=delta, twins=twins)


def people(held_out: int) -> Records:
    """Return four people of whom nothing is learned, and one at the place for validation."""
    features = np.zeros((5, 1), dtype=np.float32)
    return Records(features, np.array([1, 1, 1, 1, held_out], dtype=np.int8))


def chosen_case() -> Case:
    """Candidates that always say yes or always no, and one person to score them: the choice tells the label."""
    law, delta = geometric(4.0, 10), 0.01
    settings = {"name": "chosen", "learner": {"name": "noisy-mean"}, "grid": {"threshold": [-1e6, 1e6]}}
    with registered():
        learner = parse_learner({**settings, "law": law.wire(), "mu": 0.1})

    def honest(held_out: int, runs: int, source: RandomSource) -> AnyArray:
        sampler = Reweighing(5, None, 1.0).sampler(people(held_out))

        def once(run: int) -> float:
            given = learn_from(learner, sampler, source.derive(run), None)
            return given.threshold if isinstance(given, Linear) else 0.0

        with registered():
            return np.array([once(run) for run in range(runs)])

    def loud(held_out: int, runs: int, source: RandomSource) -> AnyArray:
        with patch.object(sums, "noisy_sum", lambda total, parts, mu, randomness: total):
            return honest(held_out, runs, source)

    claim = cost([(learner.event(1.0), 1)], delta)
    return Case("chosen", claim, (1, -1), honest, 200, delta=delta, twins={"scores without noise": loud})


def cases() -> list[Case]:
    """Return all of this file."""
    return [choice_case(), chosen_case()]
