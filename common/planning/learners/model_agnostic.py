"""Planning the model-agnostic learner: noise on votes for the budget, and teachers enough to be heard through it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from common.core.errors import BadScenario
from common.numerics.bisection import largest
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, number
from common.planning.planned_values import PlannedValue, fixed, follow, left_open
from common.privacy.accountants.base import Plan as Events
from common.privacy.budget import cost
from common.privacy.calibration import release_plan, sampling_schedule
from common.privacy.events import Gaussian
from common.privacy.rounding import down, up
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.privacy.theorems.sparse_vector import calibrated, printed, stability_margin, stability_share
from common.privacy.theorems.teacher_votes import answer_mu, answers_sigma, flips
from common.scenario.scenario import Scenario

AGREEMENT = 0.9
"""Share of teachers that agree on a point, for which chunks are planned."""
_CERTAINTY = 3.0
"""How many standard deviations of the noise such an agreement is ahead: one answer in 740 is another."""

_AGGREGATIONS = ("gnmax", "sparse-vector", "stability")
_WEAKEST = 32.0
"""Epsilon of a call beyond which none is looked for."""

SOURCE = "Bassily, Thakkar and Thakurta 2018; docs/model-agnostic.md"


@PLANNINGS.register("model-agnostic")
class ModelAgnosticPlanning(LearnerPlanning):
    """``chunks`` k, and in ``aggregation``: ``noise`` (on the sample itself), or ``epsilon`` and ``delta`` of a call.

    The budget is divided equally among the rounds, without loss: mu/sqrt(T) each for GNMax on the sample itself; else
    the largest epsilon of which T calls compose to the budget, half of its delta for the calls' own. How many classes
    there are changes nothing but how often an answer goes wrong.
    """

    open_settings = frozenset({"chunks", "aggregation"})
    reweighs = False

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events:
        """Return the answers of every round."""
        if learner.get("draws") is not None:
            return release_plan(schedule, int(number(learner, "draws")), *_guarantee(learner))
        if _aggregation(learner)["name"] == "gnmax":
            event = Gaussian(count=_queries(learner), mu=answer_mu(_sigma(learner), _touched(learner)))
            return [(event, len(schedule))]
        return release_plan((1.0,) * len(schedule), 1, *_guarantee(learner))

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """One, where the learner's model is the answer; with draws, as many as reweighing takes."""
        if scenario.curator.settings.get("draws") is not None:
            return None
        return follow(scenario.curator.rounds, lambda: 1, "one sequence of queries", SOURCE)

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """Return k times the records that a teacher takes; with draws, None: that of the reweighed distribution."""
        if scenario.curator.settings.get("draws") is not None:
            return None
        rounds = scenario.curator.rounds
        learner = _completed(scenario, 1 if rounds == "plan" else int(rounds), ())
        each = math.ceil((scenario.vc_dimension or 1) / scenario.alpha)
        return fixed(int(number(learner, "chunks")) * each, "k V/alpha: teachers that err on about alpha", SOURCE)

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in the aggregation, then the chunks that go with it."""
        schedule: Sequence[float] = ()
        if n is not None and task.kappa is not None:
            schedule = sampling_schedule(n, task.kappa, task.eta, task.rounds)
        return _completed(task.scenario, task.rounds, schedule)

    def people(self, task: Task, learner: dict[str, Any]) -> PlannedValue:
        """Return n: what the statistics ask for on the sample itself, where any is as private; else the usual rule."""
        if learner.get("draws") is not None:
            return super().people(task, learner)
        text = "n of the statistics; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, SOURCE)

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return what the aggregation costs and needs, and how often it then goes wrong."""
        found = {
            "chunks": follow(
                task.scenario.curator.settings.get("chunks"),
                lambda: _enough(learner),
                f"least k at which {AGREEMENT:.0%} agreement is heard through the noise",
                SOURCE,
            )
        }
        if _aggregation(learner)["name"] == "gnmax":
            sigma = _sigma(learner)
            flipped = flips(AGREEMENT, int(learner["chunks"]), sigma, _classes(learner))
            found["sigma"] = fixed(sigma, "sigma of a count: sqrt(2 m T)/mu*(eps, delta)", SOURCE)
            found["flips"] = fixed(flipped, f"share of answers against {AGREEMENT:.0%} of the teachers", SOURCE)
        else:
            told = "distance to instability from which all points are answered with probability 95%"
            found["margin"] = fixed(_margin(learner), told, SOURCE)
        return found


def _completed(scenario: Scenario, rounds: int, schedule: Sequence[float]) -> dict[str, Any]:
    """Return the settings with nothing at ``plan``, for the sampling bounds of all rounds."""
    learner = dict(scenario.curator.settings)
    if left_open(learner.get("aggregation")):
        learner["aggregation"] = _planned(scenario, learner, rounds, schedule)
    if learner.get("chunks") == "plan":
        learner["chunks"] = _enough(learner)
    return learner


def _planned(scenario: Scenario, learner: dict[str, Any], rounds: int, schedule: Sequence[float]) -> dict[str, Any]:
    curator, aggregation = scenario.curator, _aggregation(learner)
    if curator.epsilon is None or not curator.delta:
        raise BadScenario("planning the model-agnostic learner needs the curator's epsilon and a positive delta")
    if aggregation.get("noise") == "plan":
        if learner.get("draws") is not None:
            raise BadScenario("curator.learner.aggregation: with draws, leave epsilon and delta at plan, not noise")
        mu = down(mu_allowed(curator.epsilon, curator.delta) / math.sqrt(rounds))
        return {**aggregation, "noise": up(math.sqrt(2.0 * _queries(learner)) * _touched(learner) / mu, 64.0)}
    if (aggregation.get("epsilon"), aggregation.get("delta")) != ("plan", "plan"):
        raise BadScenario("curator.learner.aggregation: leave both epsilon and delta at plan, or neither")
    epsilon, delta = curator.epsilon, curator.delta
    if learner.get("draws") is not None:
        if not schedule:
            raise BadScenario("planning a call on draws needs curator.n and curator.kappa")
        epsilon, delta = _call(schedule, int(number(learner, "draws")), epsilon, delta)
    elif rounds > 1:
        epsilon, delta = down(epsilon / rounds, 16.0), down(delta / rounds, 16.0)
    return {**aggregation, "epsilon": epsilon, "delta": delta}


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


def _enough(learner: dict[str, Any]) -> int:
    """Return the least k at which an agreement is heard."""
    ahead = 2.0 * AGREEMENT - 1.0
    if _aggregation(learner)["name"] == "gnmax":
        return max(1, math.ceil(_CERTAINTY * math.sqrt(2.0) * _sigma(learner) / ahead))
    return math.ceil(2.0 * (_touched(learner) * (_margin(learner) + 1)) / ahead)


def _margin(learner: dict[str, Any]) -> int:
    aggregation, queries = _aggregation(learner), _queries(learner)
    epsilon, delta = _guarantee(learner)
    if aggregation["name"] == "stability":
        return stability_margin(0.05 / queries, *stability_share(queries, epsilon, delta))
    cutoff = int(number(aggregation, "cutoff"))
    if aggregation.get("estimate") is not None:
        epsilon = down(epsilon * (1.0 - number(aggregation, "estimate")))
    if aggregation.get("bounds") == "paper":
        return printed(cutoff, queries, epsilon, delta, number(aggregation, "beta", 0.05))[0].margin(0.05 / queries)
    return calibrated(cutoff, queries, epsilon, delta).margin(0.05 / queries)


def _sigma(learner: dict[str, Any]) -> float:
    aggregation = _aggregation(learner)
    if aggregation.get("noise") is not None:
        return number(aggregation, "noise")
    return answers_sigma(_queries(learner), *_guarantee(learner), _touched(learner))


def _guarantee(learner: dict[str, Any]) -> tuple[float, float]:
    aggregation = _aggregation(learner)
    return number(aggregation, "epsilon"), number(aggregation, "delta")


def _aggregation(learner: dict[str, Any]) -> dict[str, Any]:
    found = learner.get("aggregation")
    if not isinstance(found, dict) or found.get("name") not in _AGGREGATIONS:
        raise BadScenario(f"curator.learner.aggregation must be named {' or '.join(_AGGREGATIONS)}, found {found!r}")
    return found


def _queries(learner: dict[str, Any]) -> int:
    return int(number(learner, "queries"))


def _classes(learner: dict[str, Any]) -> int:
    classes = learner.get("classes")
    return int(number(classes, "count")) if isinstance(classes, dict) else 2


def _touched(learner: dict[str, Any]) -> int:
    return 2 if learner.get("by") == "content" else 1
