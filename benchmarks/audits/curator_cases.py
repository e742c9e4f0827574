"""The curator's side under audit: its draws, its learners, its memory, and a whole run under one budget.

The sample is as small as a curator accepts (kappa n = 11), one record is replaced, and the referee is malicious: it
reweighs by hypotheses of its own choice until the replaced record weighs as much as it can.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.audits.subjects import Office, office, policy, state_folder
from common.core.arrays import AnyArray
from common.crypto.identity import Signed
from common.local.hypotheses.composed import Relabelled, Task
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor
from common.local.hypotheses.rules import Conjunction, Stump
from common.local.losses import HypothesisLoss, PairLoss, Weighing
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import parse_operation
from common.privacy.accountants import grouped
from common.privacy.auditing import Subject
from common.privacy.budget import cost, sampling_schedule
from common.scenario.scenario import ResolvedScenario
from curator import engine as engine_workspace
from curator.curator import Curator, planned_events
from curator.learners.base import Learner, learn_from, parse_learner
from curator.mechanisms import selection as exponential_mechanism
from curator.mechanisms.selection import choose_level
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing, Sampler
from deploy.auditing import Case

AUDITED = {
    "access FewestMistakes": ("exponential",),
    "access ClippedSteps": ("sgd", "sgd, single precision", "sgd, squared", "sgd, first look"),
    "operations learn": ("a repeated request", "a whole run"),
    "operations reweigh": ("a draw, capped", "a draw, convex loss", "a draw, a pair", "a whole run"),
}
"""The cases here of each way to use people, and of each operation."""

N, KAPPA, ETA = 44, 0.25, 1.0
REWEIGHS = 12
"""Enough for the replaced record to reach the cap 1/(kappa n), and nearly all of the weight without the cap."""
DELTA = 0.01


def booleans(replaced: tuple[int, int, int], n: int = N) -> Records:
    """People with every feature set, but for the last; all have label +1."""
    features = np.ones((n, 3), dtype=np.uint8)
    features[-1] = replaced
    return Records(features, np.ones(n, dtype=np.int8))


BOOLEANS = ((1, 0, 0), (0, 1, 1))
"""On the one record only the first feature is right, on the other every feature but the first."""
AGAINST_BOOLEANS = Conjunction(features=(0, 1))
"""Wrong on either record, right on everybody else's."""


def outliers(side: int) -> Records:
    """People at 0, with no gradient at all, and one whose gradient is five hundred times what it may be."""
    features = np.zeros((N, 2), dtype=np.float32)
    features[-1] = (side * 1e3, 1.0)
    return Records(features, np.ones(N, dtype=np.int8))


AGAINST_OUTLIERS = Stump(feature=1, threshold=0.5, sign=-1)


def reweighed(records: Records, hypothesis: Hypothesis, kappa: float | None = KAPPA) -> Sampler:
    """Return draws after the malicious reweighs."""
    weights, sample = Reweighing(len(records), kappa, ETA), LocalSample.from_records(records)
    for _ in range(REWEIGHS):
        weights.update(sample, HypothesisLoss(hypothesis))
    return weights.sampler(sample)


def claimed_sampling() -> float:
    """Return the s that a curator claims after the malicious reweighs."""
    return sampling_schedule(N, KAPPA, ETA, REWEIGHS + 1)[-1]


# Draws: TV(mu, mu') <= s says that a draw, released as it is, is (0, s)-DP -------------------------------------


def draws(kappa: float | None) -> Subject:
    """One draw a run: which kind of record it is."""

    def subject(replaced: tuple[int, int, int], runs: int, source: RandomSource) -> AnyArray:
        records = booleans(replaced)
        drawn = reweighed(records, AGAINST_BOOLEANS, kappa).draws(runs, source)
        return np.asarray(drawn.features @ np.array([1, 2, 2]))

    return subject


def projection_case() -> Case:
    """The cap is reached: a little less than s would be a false claim already."""
    twins = {"no cap": draws(None)}
    return Case("a draw, capped", 0.0, BOOLEANS, draws(KAPPA), 100_000, delta=claimed_sampling(), twins=twins)


BOUND = 4.0


def by_hinge(eta: float) -> Subject:
    """One draw a run after a reweigh by a part of the hinge loss: 1 on the one replaced record, else 0."""
    plane = Linear(weights=(4.0, 0.0), threshold=0.0)

    def subject(side: int, runs: int, source: RandomSource) -> AnyArray:
        features = np.zeros((N, 2), dtype=np.float32)
        features[:, 0], features[-1] = 1.0, (side, 1.0)
        records = Records(features, np.ones(N, dtype=np.int8))
        weights, sample = Reweighing(N, KAPPA, eta), LocalSample.from_records(records)
        weights.update(sample, HypothesisLoss(plane, "hinge", BOUND))
        return np.asarray(weights.sampler(sample).draws(runs, source).features[:, 1])

    return subject


def convex_case() -> Case:
    """A convex loss as a part of its bound moves weights no further than a mistake does.

    The twin's step is that many times as long as its price, as in Algorithm 4's exp(-alpha/(8LD) (LD - L)), where the
    analysis has the alpha of losses in [0, 1] (docs/corrections.md, K1).
    """
    s, twins = sampling_schedule(N, KAPPA, ETA, 2)[-1], {"the printed step": by_hinge(BOUND * ETA)}
    return Case("a draw, convex loss", 0.0, (-1, 1), by_hinge(ETA), 100_000, delta=s, twins=twins)


def by_pair(eta: float) -> Subject:
    """One draw a run after a reweigh by a pair: which feature the drawn person has; on one record either rule errs."""
    first, second = Linear(weights=(1.0, 0.0), threshold=0.5), Linear(weights=(-1.0, 0.0), threshold=0.5)

    def subject(side: int, runs: int, source: RandomSource) -> AnyArray:
        features = np.zeros((N, 2), dtype=np.float32)
        features[-1] = (side, 1.0)
        records = Records(features, np.ones(N, dtype=np.int8))
        weights, sample = Reweighing(N, KAPPA, eta), LocalSample.from_records(records)
        weights.update(sample, PairLoss(first, second))
        return np.asarray(weights.sampler(sample).draws(runs, source).features[:, 1])

    return subject


def pair_case() -> Case:
    """A pair of hypotheses moves weights no further than a mistake does; a twin takes the difference fourfold."""
    s, twins = sampling_schedule(N, KAPPA, ETA, 2)[-1], {"four times the step": by_pair(4.0 * ETA)}
    return Case("a draw, a pair", 0.0, (-1, 1), by_pair(ETA), 100_000, delta=s, twins=twins)


class Overwritten(Reweighing):
    """Multiplies the weights that it projected, and forgets the ones it had."""

    def update(self, sample: Sample, weighing: Weighing) -> None:
        super().update(sample, weighing)
        flat = [np.minimum(scores, round(self._cut())).astype(np.uint32) for scores in sample.cumulative_losses()]
        self._histogram = sample.restore(flat, 1024 * self.updates)


MISTAKES = ([1, 1, 0, 0, 1], [0, 0, 1, 1, 1])
"""In which of five rounds the referee's hypothesis is wrong on the replaced record, on either sample."""
OTHERS = ([1, 1, 0, 0, 0], [0, 0, 0, 0, 1])
"""The same for the two halves of the others. Found by search."""


def drawn_after(kind: type[Reweighing]) -> Subject:
    """One draw a run after five reweighs of 21 people, each by one feature: the whole record."""

    def subject(mistakes: list[int], runs: int, source: RandomSource) -> AnyArray:
        rows = np.array([mistakes, *[OTHERS[0]] * 10, *[OTHERS[1]] * 10], dtype=np.uint8)
        records = Records(1 - rows, np.ones(len(rows), dtype=np.int8))
        weights, sample = kind(len(rows), 11 / len(rows), 4.0), LocalSample.from_records(records)
        for feature in range(rows.shape[1]):
            # Hinge, the same loss of a conjunction in 1024ths: a cut is seldom whole.
            weights.update(sample, HypothesisLoss(Conjunction(features=(feature,)), "hinge"))
        drawn = weights.sampler(sample).draws(runs, source)
        return np.asarray(drawn.features @ (1 << np.arange(rows.shape[1])))

    return subject


def lazy_case() -> Case:
    """Weights that are kept as they were before the projection; overwriting them moves the *others'* weights apart."""
    s = sampling_schedule(21, 11 / 21, 4.0, 6)[-1]
    twins = {"projected weights are kept": drawn_after(Overwritten)}
    return Case("a draw, lazy weights", 0.0, MISTAKES, drawn_after(Reweighing), 100_000, delta=s, twins=twins)


ABOUT_ANOTHER_LABEL = Relabelled(column=2, hypothesis=Conjunction(features=(0, 1)))
"""About the last feature: wrong on one of the two replaced records, right on everybody else's."""


def of_second_task(kappa: float | None) -> Subject:
    """One draw a run of a task about two features, after a first task's malicious reweighs about the third."""

    def subject(replaced: tuple[int, int, int], runs: int, source: RandomSource) -> AnyArray:
        weights, sample = Reweighing(N, kappa, ETA), LocalSample.from_records(booleans(replaced))
        for _ in range(REWEIGHS):
            weights.update(sample, HypothesisLoss(ABOUT_ANOTHER_LABEL))
        drawn = Sampler(sample, weights.density(), task=Task(features=2)).draws(runs, source)
        return np.asarray(drawn.features @ np.array([1, 2]))

    return subject


def second_task_case() -> Case:
    """A draw as a second task sees it, after a first task's malicious reweighs about another label.

    The price is that of all reweighs before it, whichever task they were for.
    """
    claimed, twins = claimed_sampling(), {"the first task has no cap": of_second_task(None)}
    return Case("a draw of a second task", 0.0, BOOLEANS, of_second_task(KAPPA), 100_000, delta=claimed, twins=twins)


# Learners ------------------------------------------------------------------------------------------------------


def learned(learner: Learner, sampler: Callable[[Any], Sampler]) -> Subject:
    """One call of the learner a run; the first weight, or whether the first feature was chosen."""

    def number(hypothesis: Hypothesis) -> float:
        return hypothesis.weights[0] if isinstance(hypothesis, Linear | Regressor) else float(hypothesis == FIRST)

    def subject(replaced: Any, runs: int, source: RandomSource) -> AnyArray:
        drawn = sampler(replaced)
        return np.array([number(learn_from(learner, drawn, source.derive(run), None)) for run in range(runs)])

    return subject


FIRST = Conjunction(features=(0,))


def sgd_case() -> Case:
    """SGD whose output is the mean of its noisy gradients: with this regularization each iterate is one.

    The replaced record's gradient is clipped from 500 to 1, and points in opposite directions on the two samples.
    """
    settings = {"name": "sgd", "steps": 16, "clip": 1.0, "noise": 1.25, "diameter": 1.0, "intercept": 0.0}
    learner = parse_learner({**settings, "regularization": 1e5, "output": "last"})
    unclipped = learner.model_copy(update={"clip": 1e6, "noise": 1.25e-6})

    def sampler(side: int) -> Sampler:
        records = outliers(side)
        return reweighed(records, AGAINST_OUTLIERS)

    claim = cost([(learner.event(claimed_sampling()), 1)], DELTA)
    twins = {"gradients without clipping": learned(unclipped, sampler)}
    return Case("sgd", claim, (1, -1), learned(learner, sampler), 6000, delta=DELTA, twins=twins, least=0.3)


WIDTH = 64
"""Coordinates from which on SGD keeps its iterate in single precision."""


def single_case() -> Case:
    """SGD of one step in single precision, on one record: the iterate is its gradient, cut from 500 to 1, and noise.

    The twin cuts it, too, but to four times the length that its noise is for.
    """
    settings = {"name": "sgd", "steps": 1, "clip": 1.0, "noise": 3.0, "diameter": 1e3, "intercept": 0.0}
    learner = parse_learner({**settings, "loss": "hinge", "output": "last"})
    longer = learner.model_copy(update={"clip": 4.0, "noise": 0.75})

    def sampler(side: int) -> Sampler:
        features = np.zeros((1, WIDTH), dtype=np.float32)
        features[0, 0] = side * 500.0
        return Reweighing(1, None, ETA).sampler(Records(features, np.ones(1, dtype=np.int8)))

    claim = cost([(learner.event(1.0), 1)], DELTA)
    twins = {"gradients four times as long": learned(longer, sampler)}
    return Case(
        "sgd, single precision", claim, (1, -1), learned(learner, sampler), 6000, delta=DELTA, twins=twins, least=0.5
    )


def squared_case() -> Case:
    """SGD of one step on the squared loss of one record, whose response is on either side of what is predicted."""
    settings = {"name": "sgd", "steps": 1, "clip": 1.0, "noise": 3.0, "diameter": 1e3, "intercept": 0.0}
    learner = parse_learner({**settings, "loss": "squared", "output": "last"})
    longer = learner.model_copy(update={"clip": 4.0, "noise": 0.75})

    def sampler(response: int) -> Sampler:
        features = np.array([[500.0, response]], dtype=np.float32)
        return Reweighing(1, None, ETA).sampler(Records(features, np.ones(1, dtype=np.int8)))

    claim = cost([(learner.event(1.0), 1)], DELTA)
    twins = {"gradients four times as long": learned(longer, sampler)}
    return Case("sgd, squared", claim, (1, -1), learned(learner, sampler), 6000, delta=DELTA, twins=twins, least=0.5)


def look_case() -> Case:
    """SGD of one step after a first look at one record: the half-space's place shows where that lies."""
    settings = {"name": "sgd", "steps": 1, "noise": 8.0, "diameter": 1e3, "intercept": 0.0, "output": "last"}
    learner = parse_learner({**settings, "look": 0.7, "norm": 1.0})

    def place(chosen: Learner) -> Subject:
        def subject(side: int, runs: int, source: RandomSource) -> AnyArray:
            records = Records(np.array([[side]], dtype=np.float32), np.ones(1, dtype=np.int8))
            drawn = Reweighing(1, None, ETA).sampler(records)
            planes: list[Any] = [learn_from(chosen, drawn, source.derive(run), None) for run in range(runs)]
            weights = [plane.weights[0] for plane in planes]  # 0 where noise on its grid is
            return np.array([plane.threshold / (weight or 1.0) for plane, weight in zip(planes, weights, strict=True)])

        return subject

    claim = cost(grouped([learner.event(1.0)]), DELTA)
    twins = {"a look four times as close": place(learner.model_copy(update={"look": 2.8}))}
    return Case("sgd, first look", claim, (1, -1), place(learner), 1500, delta=DELTA, twins=twins, least=0.25)


def exponential(epsilon: float) -> Learner:
    """Choose one of three features by a single draw."""
    settings = {"name": "exponential", "hypotheses": "conjunctions", "literals": 1, "draws": 1}
    return parse_learner({**settings, "epsilon": epsilon})


def alone(replaced: tuple[int, int, int]) -> Sampler:
    """Draw from a sample that is the replaced record and nobody else."""
    records = booleans(replaced, n=1)
    return Reweighing(1, None, ETA).sampler(records)


def exponential_case() -> Case:
    """The mechanism itself, on one record: its scores all change, one of them against the others."""

    def halved(replaced: Any, runs: int, source: RandomSource) -> AnyArray:
        with patch.object(exponential_mechanism, "choose_level", lambda people, e, s: choose_level(people, 2 * e, s)):
            return learned(exponential(2.0), alone)(replaced, runs, source)

    claim = cost([(exponential(2.0).event(1.0), 1)], 0.0)
    twins = {"half the sensitivity": halved}
    return Case("exponential", claim, BOOLEANS, learned(exponential(2.0), alone), 5000, twins=twins, least=1.0)


# The curator ---------------------------------------------------------------------------------------------------

LEARN = {"kind": "learn", "round": 1}


class ResamplingCurator(Curator):
    """Answers a repeated request by running it again."""

    _performed = 0

    def perform(self, signed: Signed) -> Signed:
        first = super().perform(signed)
        self._performed += 1
        operation = parse_operation(signed.message["operation"])
        again = self._engine.workspace.perform(operation, self._randomness.derive(self._performed))
        return self._journal.identity.sign(first.kind, {**first.message, "result": again.wire()})


def chosen(results: list[dict[str, Any]]) -> int:
    """Count how often the first feature was released."""
    return sum(result["hypothesis"] == FIRST.wire() for result in results)


def asked_again(kind: type[Curator], times: int) -> Subject:
    """One operation a run, asked for so many times; the first release, and all of them together."""

    def subject(replaced: tuple[int, int, int], runs: int, source: RandomSource) -> AnyArray:
        learner = exponential(2.0).wire()
        scenario = policy(n=1, kappa=None, eta=ETA, rounds=runs, learner=learner)
        with (
            state_folder() as state,
            office(kind, scenario, booleans(replaced, n=1), Path(state), source) as local_curator,
        ):
            return np.array([chosen(local_curator.ask(LEARN, times=times)) for _ in range(runs)])

    return subject


def retry_case() -> Case:
    """Asking again is free, as what comes is what came before. Each operation is audited at the price it declares.

    Three requests show whether they are answered alike; a twin takes more until its answers tell of the record.
    """
    claim = cost([(exponential(2.0).event(1.0), 1)], 0.0)
    twins = {"a fresh sample on every retry": asked_again(ResamplingCurator, 12)}
    return Case("a repeated request", claim, BOOLEANS, asked_again(Curator, 3), 300, twins=twins, least=0.2)


ROUNDS = 3


class Uncapped(Reweighing):
    """Claims the cap, and leaves it out."""

    def _cut(self) -> float:
        return math.inf


def whole_run(scenario: ResolvedScenario, weights: type[Reweighing]) -> Subject:
    """A curator a run: every round's release, with a malicious reweigh after each."""

    def converse(local_curator: Office) -> int:
        results = []
        for number in range(ROUNDS):
            results += local_curator.ask({**LEARN, "round": number + 1})
            local_curator.ask({"kind": "reweigh", "hypothesis": AGAINST_BOOLEANS.wire()})
        return chosen(results)

    def subject(replaced: tuple[int, int, int], runs: int, source: RandomSource) -> AnyArray:
        counts = np.empty(runs)
        with state_folder() as state, patch.object(engine_workspace, "Reweighing", weights):
            for run in range(runs):
                with office(Curator, scenario, booleans(replaced), Path(state), source.derive(run)) as local_curator:
                    counts[run] = converse(local_curator)
        return counts

    return subject


def run_case() -> Case:
    """Three rounds under one budget; the claim is the epsilon that the curator publishes."""
    learner = parse_learner({**exponential(0.2).wire(), "draws": 60})
    eta = 6.0
    claim = cost([(event, 1) for event in planned_events(learner, N, KAPPA, eta, ROUNDS)], DELTA)
    scenario = policy(n=N, kappa=KAPPA, eta=eta, rounds=ROUNDS, learner=learner.wire(), epsilon=claim, delta=DELTA)
    twins = {"no cap": whole_run(scenario, Uncapped)}
    return Case("a whole run", claim, BOOLEANS, whole_run(scenario, Reweighing), 400, delta=DELTA, twins=twins)


def cases() -> list[Case]:
    """Return every case of the curator's side."""
    return [
        projection_case(), convex_case(), lazy_case(), second_task_case(), sgd_case(), single_case(),
        squared_case(), look_case(), exponential_case(), retry_case(), run_case(), pair_case(),
    ]  # fmt: skip
