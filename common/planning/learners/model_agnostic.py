"""Planning the model-agnostic learner: noise on votes for the budget, and teachers enough to be heard through it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from common.core.errors import BadScenario
from common.core.values import PLAN, anything_open, left_open
from common.learners.aggregation import GnMax, OpenGnMax, SparseVector, Stability, parse_aggregation
from common.learners.model_agnostic import ModelAgnosticSettings, OpenModelAgnostic
from common.numerics.bisection import largest
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task
from common.privacy.budget import cost
from common.privacy.calibration import release_plan, sampling_schedule
from common.privacy.rounding import down, up
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.votes import flips, stability_margin, stability_share
from common.scenario.scenario import Scenario
from common.statistics.formulas import PlannedValue, fixed, follow

AGREEMENT = 0.9
"""Share of teachers that agree on a point, for which chunks are planned."""
_CERTAINTY = 3.0
"""How many standard deviations of the noise such an agreement is ahead: one answer in 740 is another."""

_WEAKEST = 32.0
"""Epsilon of a call beyond which none is looked for."""

SOURCE = "Bassily, Thakkar and Thakurta 2018; docs/model-agnostic.md"


@PLANNINGS.register("model-agnostic")
class ModelAgnosticPlanning(LearnerPlanning[OpenModelAgnostic, ModelAgnosticSettings]):
    """``chunks`` k, and in ``aggregation``: ``noise`` (on the sample itself), or ``epsilon`` and ``delta`` of a call.

    The budget is divided equally among the rounds, without loss: mu/sqrt(T) each for GNMax on the sample itself; else
    the largest epsilon of which T calls compose to the budget, half of its delta for the calls' own. How many classes
    there are changes nothing but how often an answer goes wrong.
    """

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """One, where the learner's model is the answer; with draws, as many as reweighing takes."""
        if self.asked.draws is not None:
            return None
        return follow(scenario.curator.rounds, lambda: 1, "one sequence of queries", SOURCE)

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """Return k times the records that a teacher takes; with draws, None: that of the reweighed distribution."""
        if self.asked.draws is not None:
            return None
        rounds = scenario.curator.rounds
        learner = self._completed(scenario, 1 if rounds == PLAN else rounds, ())
        each = math.ceil((scenario.vc_dimension or 1) / scenario.alpha)
        return fixed(learner.chunks * each, "k V/alpha: teachers that err on about alpha", SOURCE)

    def complete(self, task: Task, n: int | None) -> ModelAgnosticSettings:
        """Fill in the aggregation, then the chunks that go with it."""
        schedule: Sequence[float] = ()
        if n is not None and task.kappa is not None:
            schedule = sampling_schedule(n, task.kappa, task.eta, task.rounds, task.before)
        return self._completed(task.scenario, task.rounds, schedule)

    def people(self, task: Task, learner: ModelAgnosticSettings) -> PlannedValue:
        """Return n: what the statistics ask for on the sample itself, where any is as private; else the usual rule."""
        if learner.draws is not None:
            return super().people(task, learner)
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, SOURCE)

    def planned_values(self, task: Task, learner: ModelAgnosticSettings) -> dict[str, PlannedValue]:
        """Return what the aggregation costs and needs, and how often it then goes wrong."""
        found = {
            "chunks": follow(
                self.asked.chunks,
                lambda: _enough(learner, learner.aggregation),
                f"least k at which {AGREEMENT:.0%} agreement is heard through the noise",
                SOURCE,
            )
        }
        aggregation = learner.aggregation
        if isinstance(aggregation, GnMax):
            sigma = aggregation.sigma(learner.queries, learner.touched)
            flipped = flips(AGREEMENT, learner.chunks, sigma, learner.class_count)
            found["sigma"] = fixed(sigma, "sigma of a count: sqrt(2 m T)/mu*(eps, delta)", SOURCE)
            found["flips"] = fixed(flipped, f"share of answers against {AGREEMENT:.0%} of the teachers", SOURCE)
        else:
            told = "distance to instability from which all points are answered with probability 95%"
            found["margin"] = fixed(_margin(learner, aggregation), told, SOURCE)
        return found

    def _completed(self, scenario: Scenario, rounds: int, schedule: Sequence[float]) -> ModelAgnosticSettings:
        """Return the settled settings, for the sampling bounds of all rounds."""
        planned = self.asked.aggregation.wire() | self._planned(scenario, rounds, schedule)
        aggregation = parse_aggregation(planned)
        chunks = _enough(self.asked, aggregation) if self.asked.chunks == PLAN else self.asked.chunks
        written = self.asked.as_written["aggregation"]
        shown = {key: planned[key] if left_open(value) else value for key, value in written.items()}
        return self.asked.settled(ModelAgnosticSettings, chunks=chunks, aggregation=shown)

    def _planned(self, scenario: Scenario, rounds: int, schedule: Sequence[float]) -> dict[str, float]:
        """Return what the aggregation leaves open, by name."""
        asked, aggregation, curator = self.asked, self.asked.aggregation, scenario.curator
        if not anything_open(aggregation):
            return {}
        if curator.epsilon is None or not curator.delta:
            raise BadScenario("planning the model-agnostic learner needs the curator's epsilon and a positive delta")
        if isinstance(aggregation, OpenGnMax) and aggregation.noise == PLAN:
            if asked.draws is not None:
                raise BadScenario("curator.learner.aggregation: with draws, leave epsilon and delta at plan, not noise")
            mu = down(mu_allowed(curator.epsilon, curator.delta) / math.sqrt(rounds))
            return {"noise": up(math.sqrt(2.0 * asked.queries) * asked.touched / mu, 64.0)}
        if (aggregation.epsilon, aggregation.delta) != (PLAN, PLAN):
            raise BadScenario("curator.learner.aggregation: leave both epsilon and delta at plan, or neither")
        epsilon, delta = curator.epsilon, curator.delta
        if asked.draws is not None:
            if not schedule:
                raise BadScenario("planning a call on draws needs curator.n and curator.kappa")
            epsilon, delta = _call(schedule, asked.draws, epsilon, delta)
        elif rounds > 1:
            epsilon, delta = down(epsilon / rounds, 16.0), down(delta / rounds, 16.0)
        return {"epsilon": epsilon, "delta": delta}


def _call(schedule: Sequence[float], draws: int, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the guarantee of a call on draws of which one a round fits the budget, nearly the weakest."""
    dearest = max(schedule)

    def own_delta(each: float) -> float:
        star = min(draws * math.log1p(dearest * math.expm1(each)), 700.0)
        return min(delta, delta / (2.0 * len(schedule)) * math.expm1(each) / math.expm1(star))

    def fits(each: float) -> bool:
        return cost(release_plan(schedule, draws, each, own_delta(each)), delta) <= epsilon

    private = largest(fits, epsilon, 1e-4, _WEAKEST)
    if private == 0.0:
        raise BadScenario("no call on so many draws fits the curator's budget: enlarge n, or lower draws or rounds")
    return private, own_delta(private)


def _enough(learner: OpenModelAgnostic, aggregation: GnMax | Stability | SparseVector) -> int:
    """Return the least k at which an agreement is heard."""
    ahead = 2.0 * AGREEMENT - 1.0
    if isinstance(aggregation, GnMax):
        sigma = aggregation.sigma(learner.queries, learner.touched)
        return max(1, math.ceil(_CERTAINTY * math.sqrt(2.0) * sigma / ahead))
    return math.ceil(2.0 * (learner.touched * (_margin(learner, aggregation) + 1)) / ahead)


def _margin(learner: OpenModelAgnostic, aggregation: Stability | SparseVector) -> int:
    queries = learner.queries
    if isinstance(aggregation, Stability):
        return stability_margin(0.05 / queries, *stability_share(queries, aggregation.epsilon, aggregation.delta))
    return aggregation.thresholds(queries, aggregation.cutoff).margin(0.05 / queries)
