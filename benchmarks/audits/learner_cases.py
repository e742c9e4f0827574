"""Learners under audit on draws from mu, after a malicious referee's reweighs; parities; labels of public points.

What amplifies is the cap on mu: a twin without it draws the replaced record nearly always, at the same claim.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.audits.curator_cases import (
    AGAINST_BOOLEANS,
    AGAINST_OUTLIERS,
    BOOLEANS,
    KAPPA,
    N,
    booleans,
    claimed_sampling,
    learned,
    reweighed,
)
from benchmarks.audits.votes_cases import DELTA, MAJORITY, learner, people
from common.core.arrays import AnyArray
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import LabelPoints
from common.privacy.auditing import Subject
from common.privacy.budget import cost
from common.privacy.theorems.randomized_response import Rates, Rule, rates
from curator.engine import Workspace
from curator.learners.base import learn_from, parse_learner
from curator.learners.rules import BOTTOM
from curator.mechanisms import parities
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing, Sampler
from deploy.auditing import Case, without

AUDITED = {
    "access FewestMistakes": ("exponential, on draws",),
    "access TeacherAnswers": ("votes, on draws",),
    "access PlaceParities": ("parity",),
    "operations label": ("labels of public points",),
}
"""The cases here of each way to use people, and of each operation."""


def capped(kappa: float | None) -> Callable[[tuple[int, int, int]], Sampler]:
    """Return what gives draws after the malicious reweighs, with or without the cap."""
    return lambda replaced: reweighed(booleans(replaced), AGAINST_BOOLEANS, kappa)


def exponential_case() -> Case:
    """Five draws, one of three features is chosen by their scores."""
    settings = {"name": "exponential", "hypotheses": "conjunctions", "literals": 1, "draws": 5, "epsilon": 1.0}
    chosen = parse_learner(settings)
    claim = cost([(chosen.event(claimed_sampling()), 1)], 0.0)
    twins = {"no cap": learned(chosen, capped(None))}
    return Case("exponential, on draws", claim, BOOLEANS, learned(chosen, capped(KAPPA)), 1000, twins=twins)


DRAWS = 12


def votes_case() -> Case:
    """Twelve draws, one to a teacher; a student learns from the noisy vote on one public point, and repeats it.

    The replaced record is the only one on which the referee's hypothesis errs, whichever of the two it is.
    """
    settings = {"name": "model-agnostic", "chunks": DRAWS, "draws": DRAWS, "queries": 1}
    least_noise = {"name": "gnmax", "epsilon": 0.5, "delta": 1e-3}
    chosen = parse_learner({**settings, "teacher": MAJORITY, "student": MAJORITY, "aggregation": least_noise})
    public = Records(np.zeros((1, 2), dtype=np.float32), np.ones(1, dtype=np.int8))

    def records(label: int) -> Records:
        features = np.zeros((N, 2), dtype=np.float32)
        features[-1, 1] = label > 0
        return Records(features, np.array([1] * (N - 1) + [label], dtype=np.int8))

    def subject_of(kappa: float | None) -> Subject:
        def subject(label: int, runs: int, source: RandomSource) -> AnyArray:
            drawn = reweighed(records(label), AGAINST_OUTLIERS, kappa)
            found = [learn_from(chosen, drawn, source.derive(run), None, public) for run in range(runs)]
            return np.array([float(hypothesis.predict(public.features)[0]) for hypothesis in found])

        return subject

    claim = cost([(chosen.event(claimed_sampling()), 1)], DELTA)
    return Case("votes, on draws", claim, (1, -1), subject_of(KAPPA), 200, DELTA, {"no cap": subject_of(None)})


def parity_case() -> Case:
    """Two people without features: one of them contradicts every parity, or nobody does."""
    asked = parse_learner({"name": "parity", "epsilon": 1.0})

    def subject(records: Records, runs: int, source: RandomSource) -> AnyArray:
        sampler = Reweighing(len(records), None, 1.0).sampler(records)
        return np.array([float(learn_from(asked, sampler, source.derive(run), None) == BOTTOM) for run in range(runs)])

    def always(rule: Rule, epsilon: float) -> Rates:
        return rates(rule, epsilon)._replace(answers=1.0)

    def two(first: int) -> Records:
        return Records(np.zeros((2, 1), dtype=np.uint8), np.array([first, -1], dtype=np.int8))

    claim = cost([(asked.event(1.0), 1)], 0.0)
    twins = {"bottom only where it must be": without((parities, "rates"), always, subject)}
    return Case("parity", claim, (two(1), two(-1)), subject, 2000, twins=twins, least=0.5)


def label_case() -> Case:
    """Eight teachers with one record each, four of either mind; the number of positive labels of four public points."""
    public = people([1, 1, 1, 1], first=100)

    def labelled(noise: float) -> Subject:
        def subject(records: Records, runs: int, source: RandomSource) -> AnyArray:
            asked = LabelPoints(first=0, count=4)
            workspace = Workspace(
                LocalSample.from_records(records), Reweighing(len(records), None, 1.0), learner(8, noise), public=public
            )
            found = [workspace.perform(asked, source.derive(run)).labels for run in range(runs)]
            return np.array([sum(label == 1 for label in labels) for labels in found])

        return subject

    claim = cost([(learner(8, 4.0).event(1.0), 1)], DELTA)
    inputs = people([1, 1, 1, 1, -1, -1, -1, -1]), people([1, 1, 1, 1, 1, -1, -1, -1])
    twins = {"a quarter of the noise": labelled(1.0)}
    return Case("labels of public points", claim, inputs, labelled(4.0), 1000, DELTA, twins)


def cases() -> list[Case]:
    """Return every case of this file."""
    return [exponential_case(), votes_case(), parity_case(), label_case()]
