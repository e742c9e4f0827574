"""What a protocol is: a generator over messages, with a declared message pattern.

A protocol yields :class:`AskCurator`, :class:`AskAgents`, :class:`AskTogether` and :class:`Progress`, receives the
answer to each, and returns an :class:`Outcome`. It is deterministic given its parameters and the answers: resume and
audit replay it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

from common.core.errors import BadScenario
from common.core.registry import Registry
from common.core.values import Value
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import UNIT, Costs
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import BitMechanism, Mechanism
from common.local.queries.query import AskAgents
from common.operations.target_bound import TargetBound
from common.protocols.base import AskCurator, AskTogether, PlanInputs, Problem, Progress, as_bits, pattern_of
from common.protocols.patterns import Party, Pattern
from common.scenario import loading
from common.scenario.forecasting import points
from common.scenario.scenario import ResolvedScenario, Scenario
from common.statistics.curves import ScoreQuality
from common.statistics.finalists import LIKELY, PROBABLE
from common.statistics.intervals import Estimate, probability
from common.statistics.robustness import Silence, robust_estimate


@dataclass(frozen=True)
class JudgedCandidate:
    """A candidate of a protocol that judges several: its name, hypothesis, and the estimate from ``asked`` agents."""

    name: str
    hypothesis: Hypothesis
    estimate: Estimate
    asked: int


@dataclass(frozen=True)
class Comparison:
    """The answer's loss on T minus that of its rival, the best (by its posterior) of what either side has alone.

    Attributes:
        rival: The name of a candidate.
        value, low, high: The estimate and its interval, which holds with the given confidence together with all other
            statements of a result.
        likely, probable: Intervals that each hold by themselves, with the probabilities
            :data:`common.statistics.finalists.LIKELY` and ``PROBABLE`` there.
        agents: About how many agents in all would show that the answer is better, if the estimate is right; None: no
            number.
    """

    rival: str
    value: float
    low: float
    high: float
    confidence: float
    likely: tuple[float, float]
    probable: tuple[float, float]
    agents: int | None

    @property
    def vague(self) -> Comparison:
        nothing = (-1.0, 1.0)
        return replace(self, low=-1.0, high=1.0, likely=nothing, probable=nothing, agents=None)

    def wire(self) -> dict[str, Any]:
        difference = {"value": self.value, "low": self.low, "high": self.high, "confidence": self.confidence}
        likely = {"low": self.likely[0], "high": self.likely[1], "confidence": LIKELY}
        probably = {"low": self.probable[0], "high": self.probable[1], "confidence": PROBABLE}
        intervals = {"difference": difference, "likely": likely, "probably": probably}
        return {"with": self.rival, **intervals, "agents": self.agents}


@dataclass(frozen=True)
class BestConstant:
    """The constant with the least estimated loss, that estimate, and the answer's comparison with the best constant.

    A constant that is the answer's rival is not among these constants.
    """

    candidate: JudgedCandidate
    comparison: Comparison

    @property
    def vague(self) -> BestConstant:
        estimate = self.candidate.estimate.model_copy(update={"low": 0.0, "high": 1.0})
        return BestConstant(replace(self.candidate, estimate=estimate), self.comparison.vague)

    def wire(self) -> dict[str, Any]:
        best = self.candidate
        fields = {"hypothesis": best.hypothesis.wire(), "estimate": best.estimate.wire(), "asked": best.asked}
        return {**fields, **self.comparison.wire()}


@dataclass(frozen=True)
class TestedPair:
    """By how much the answer's loss on T exceeds a rival's: an estimate with an interval, one of a protocol's pairs.

    All intervals of a run's pairs hold together with the confidence.
    """

    rival: str
    hypothesis: Hypothesis
    value: float
    low: float
    high: float
    confidence: float

    def wire(self) -> dict[str, Any]:
        difference = {"value": self.value, "low": self.low, "high": self.high, "confidence": self.confidence}
        return {"rival": self.rival, "hypothesis": self.hypothesis.wire(), "difference": difference}


@dataclass(frozen=True)
class Outcome:
    """How a protocol ended: ``done`` with its answer, ``exhausted`` with the best one, all rounds or agents used.

    Attributes:
        iterations: Number of rounds used.
        answer, estimate, reason: The answer, its estimate from the agents' answers, and why the run ended there.
        tasks: For a protocol that learns several things: how each ended, in order. The other attributes are then those
            of the last one, except that ``iterations`` counts the rounds of all.
        judged, gap: For a protocol that judges several candidates: each of them, and a bound on how much the answer's
            loss exceeds the least. All intervals and the gap hold together with the estimate's confidence.
        constant: How the answer compares with the best constant, where agents reported on constants; if the rival is a
            constant, with the best of the others.
        summary: The statistics behind the estimate, where answers were counted: an audit bounds what liars could move.
        silent: What those who were asked and did not answer could change; None where all answered.
        pairs: For a protocol that compares the answer with rivals: the estimate for each pair of the last round.
        bound: For domain adaptation: the bound on the answer's loss on T from both samples alone, if requested.
        calibrated: A hypothesis whose margin is the logarithm of the odds of +1, from the agents' recalibration of a
            model's score on T; the answer may be another one. None where they did not recalibrate.
        quality: How good that score is, where agents were surveyed.
    """

    status: Literal["done", "exhausted"]
    iterations: int
    answer: Value
    estimate: Estimate | None
    reason: str
    tasks: tuple[Outcome, ...] = ()
    judged: tuple[JudgedCandidate, ...] = ()
    gap: float | None = None
    comparison: Comparison | None = None
    constant: BestConstant | None = None
    summary: AnswerSummary | None = None
    silent: Nonresponse | None = None
    bound: TargetBound | None = None
    calibrated: Hypothesis | None = None
    quality: ScoreQuality | None = None
    pairs: tuple[TestedPair, ...] = ()

    @property
    def hypothesis(self) -> Hypothesis:
        """The answer of a protocol that learns a hypothesis; TypeError if it is something else."""
        if not isinstance(self.answer, Hypothesis):
            raise TypeError(f"the answer is no hypothesis, but a {type(self.answer).__name__}")
        return self.answer

    def ended(self, iterations: int, reason: str) -> Outcome:
        """Return this answer as that of a protocol that used ``iterations`` rounds."""
        return replace(self, iterations=iterations, reason=reason)


@dataclass(frozen=True)
class AnswerSummary:
    """The statistics of an estimate, as :func:`common.statistics.robustness.robust_estimate` takes them.

    ``asked`` agents were asked for these answers; ``once``: all of them before any answer was seen.
    """

    mechanism: Mechanism
    total: float
    count: int
    confidence: float
    among: int
    liars: float
    asked: int
    once: bool = False

    def estimate(self, share: float = 0.0) -> Estimate:
        return self._estimate(max(self.liars, share), 0)

    def left_out(self) -> Estimate:
        """Return the estimate that allows for missing answers which were left out because of what they say."""
        return self._estimate(self.liars, self.asked - self.count)

    def _estimate(self, share: float, missing: int) -> Estimate:
        numbers = (self.mechanism, self.total, self.count, self.confidence, self.among)
        return robust_estimate(*numbers, share=share, missing=missing, once=self.once)


@dataclass(frozen=True)
class Nonresponse:
    """What those who did not answer could change about an outcome, if they differ from those who did.

    Attributes:
        estimate, gap: The outcome's estimate and gap, widened to cover all people, if silence depends only on their
            records; None where the outcome has none.
        left_out: The estimate for all people if silence may depend on the answers as well: someone has seen them, and
            left some out (:func:`common.statistics.robustness.robust_estimate`). It assumes nothing about those who did
            not answer; None where it is not known which answers the estimate is made of.
        matters: Whether they can change what the run has shown: it states a gap, or ``left_out`` is unknown, reaches
            the level to be shown, or, without a level, is wider than :data:`~common.statistics.intervals.VAGUE`.
    """

    silence: Silence
    estimate: Estimate | None
    gap: float | None
    left_out: Estimate | None
    matters: bool


P = TypeVar("P", bound=Problem)
Step = AskCurator | AskAgents | AskTogether | Progress
Script = Generator[Step, Any, Outcome]


class Protocol(ABC):
    """A protocol: its message pattern, its script, and what a run that ends ``done`` shows."""

    pattern: Pattern
    done: str = "it ended with its answer; nothing is stated about that but the interval of its estimate"
    """What a run that ends ``done`` has shown, and with which probability: no more than its theorem.

    :func:`shown_by` fills in ``level``, ``alpha``, ``beta``, ``gap``, ``more``, and ``sure``, which is 1 - beta.
    """
    tests_level: bool = False
    """Whether, in mode ``realizable``, it ends ``done`` where a test shows the loss on T to be below a level."""
    supports_byzantine_agents: bool = False
    """Whether its tests and intervals hold for the lies that ``agents.liars`` allows among the first n answers."""
    problem: str | None = None  # name of the problem of its scenarios; None: they seek a hypothesis with a small loss
    small: ClassVar[tuple[Any, ...]] = ()
    """Settings that make a shipped scenario small: ``ball``, or a problem's own, with its people first."""

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return scenarios of this protocol that run in a fraction of a second; they may leave numbers at ``plan``."""
        return (small_ball(*cls.small),)

    def asks(self, scenario: ResolvedScenario) -> frozenset[str]:
        """Return the kinds of queries that a run of a scenario may ask agents; by default all of the pattern."""
        return self.pattern.kinds("agents")

    @abstractmethod
    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        """Start the protocol for a resolved scenario (no value is left at ``plan``).

        ``public`` is public randomness of the run, below 2^60 (:func:`referee.collection.order.public_randomness`).
        """


PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", __name__)


@dataclass(frozen=True)
class ProblemPlan(PlanInputs, Generic[P]):
    """The numbers of a resolved scenario that the script of its problem uses.

    The curator has epsilon ``share`` for each of its releases.
    """

    n: int
    count: int
    problem: P
    share: float

    @property
    def bits(self) -> BitMechanism:
        return as_bits(self.mechanism)

    def oracle(self, mechanisms: str) -> FrequencyOracle:
        """Return the mechanism, if agents report an item; else :class:`BadScenario` that names ``mechanisms``."""
        if not isinstance(self.mechanism, FrequencyOracle):
            raise BadScenario(f"{self.problem.name} needs a frequency oracle as agents.mechanism: take {mechanisms}")
        return self.mechanism


BY_NORMAL_LAW = "by the normal law, which is no bound, "
AS_PLANNED = (
    "at the sizes of the tight plan, for people as the problem describes them and if those who answer are like all"
)
"""Parts of what is shown about a problem."""


class ProblemProtocol(Protocol, Generic[P]):
    """A protocol for a problem, with what either side can do where the other is left out (scenario key ``alone``)."""

    kind: ClassVar[type[Problem]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.problem = cls.kind.model_fields["name"].default
        cls.pattern = pattern_of(cls.kind.model_fields["name"].default)

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        people, *numbers = cls.small
        places = [f"{side}.distribution={json.dumps(people)}" for side in ("source", "target")]
        return (loading.load(str(cls.problem), [*places, "agents.deadline=5", *numbers]),)

    def plan(self, scenario: ResolvedScenario) -> ProblemPlan[P]:
        """Return the numbers that the script uses; BadScenario if the problem is another, or there is no epsilon."""
        if not isinstance(scenario.problem, self.kind):
            raise BadScenario(f"{self.problem} needs its problem")
        problem: Any = scenario.problem
        return ProblemPlan(**vars(scenario.plan_inputs), problem=problem, share=scenario.curator.share)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        return self.both_sides(self.plan(scenario), public)

    @abstractmethod
    def both_sides(self, plan: ProblemPlan[P], public: int) -> Script:
        """Solve the problem with curator and agents."""

    def curator_alone(self, plan: ProblemPlan[P], public: int) -> Script:
        """Run what the curator can do alone; overridden if the demands declare something for it."""
        raise AssertionError("this problem's demands leave nothing to the curator alone")

    def agents_alone(self, plan: ProblemPlan[P], public: int) -> Script:
        """Run what the agents can do alone, likewise."""
        raise AssertionError("this problem's demands leave nothing to the agents alone")


class Ablation(Protocol):
    """A problem's protocol with one side left out: it shows what the other side is needed for."""

    def __init__(self, name: str, side: Party) -> None:
        kind = PROTOCOLS[name]
        if not issubclass(kind, ProblemProtocol):
            raise BadScenario(f"nothing remains of protocol {name!r} for {side} alone")
        self.side = side
        self.full: ProblemProtocol[Any] = kind()
        self.problem = kind.problem
        self.pattern = pattern_of(name, side)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        alone = self.full.curator_alone if self.side == "curator" else self.full.agents_alone
        return alone(self.full.plan(scenario), public)


def halts(scenario: Scenario) -> bool:
    """Tell whether a run of the scenario halts where the loss on T is shown to be below a level."""
    searches = scenario.halts and scenario.problem is None
    return searches and scenario.protocol in PROTOCOLS and PROTOCOLS[scenario.protocol].tests_level


def level_of(scenario: Scenario) -> float | None:
    """Return the level below which the loss is to be shown; None where a run has no such level."""
    return scenario.levels[1] if halts(scenario) else None


def tested_loss(scenario: Scenario) -> str:
    """Return the name of the loss that agents test, with its bound if it is measured as a part of that."""
    agents = scenario.agents
    if agents.costs is not None:
        return f"mean cost of a person ({agents.costs.text}) as a part of {agents.costs.heaviest:g}"
    return f"{agents.loss} loss" + ("" if agents.bound == UNIT else f" (as a part of {agents.bound:g})")


def difference_in_words(loss: str, costs: Costs | None, value: float) -> str:
    """Return a difference of two losses as text, rounded up: in points or costs for the zero-one loss."""
    return points(value, costs) if loss == "zero-one" else f"{math.ceil(value * 1e4 - 1e-9) / 1e4:g}"


BUT = "; but "  # in a reason, before why a run does not end as its script ended


def all_used(rounds: int) -> str:
    """Return the start of the reason of a run whose last round's hypothesis was rejected as well."""
    return f"all {rounds} rounds were used"


def shown_by(scenario: Scenario, gap: float | None = None) -> str:
    """Return what a run of the scenario that ends ``done`` has shown (:attr:`Protocol.done`), with its own numbers.

    ``gap`` is the one that the run states, alpha at most; None: the run is still to come, or states none.
    """
    claimed = PROTOCOLS[scenario.protocol] if scenario.alone is None else Protocol
    agents, level = scenario.agents, scenario.levels[1]
    bound = f", {tested_loss(scenario)}," if agents.bound != UNIT else ""
    claim = claimed.done.format(
        alpha=f"{scenario.alpha:g}",
        gap=difference_in_words(agents.loss, agents.costs, scenario.alpha if gap is None else gap),
        beta=f"{scenario.beta:g}",
        sure=probability(1.0 - scenario.beta),
        level=f"{100.0 * level:.10g}%" if agents.loss == "zero-one" else f"{level:g}{bound}",
        more=difference_in_words(agents.loss, agents.costs, level),
    )
    lies = f"; if of the first n answers, for every n, at most {agents.liars:g} n are lies" if agents.liars else ""
    return claim + lies


def check_problem(scenario: Scenario) -> None:
    """Refuse a scenario whose problem is not that of its protocol; BadScenario names both."""
    expected, name = PROTOCOLS[scenario.protocol].problem, scenario.problem and scenario.problem.name
    if name != expected:
        raise BadScenario(f"protocol {scenario.protocol} is about problem {expected or 'none'}, found {name or 'none'}")


def protocol_of(scenario: ResolvedScenario) -> Protocol:
    """Return the protocol that a scenario runs: the one it names, or its ablation for a side that is alone.

    BadInput: there is no protocol of that name. BadScenario: its problem is another one, or the scenario assumes liars,
    for which this protocol's intervals or the agents' mechanism do not allow.
    """
    check_problem(scenario)
    kind = PROTOCOLS[scenario.protocol]
    protocol = kind() if scenario.alone is None else Ablation(scenario.protocol, scenario.alone)
    if scenario.agents.liars and not protocol.supports_byzantine_agents:
        raise BadScenario(f"agents.liars: {scenario.protocol} has no intervals that bear liars: leave it out")
    if scenario.agents.liars and not isinstance(scenario.agents.mechanism, BitMechanism):
        name = scenario.agents.mechanism.name
        raise BadScenario(
            f"agents.liars: a liar moves answers of {name} as far as it likes: take warner, or leave it out"
        )
    return protocol


BALL = (
    "curator.n=1200", "curator.kappa=0.2", "curator.eta=0.2", "curator.rounds=3", "curator.epsilon=60",
    "curator.learner.steps=300", "agents.count=6000", "agents.mechanism.epsilon=2", "agents.batch=400",
    "agents.deadline=5",
)  # fmt: skip


def small_ball(*numbers: str) -> Scenario:
    """Return a small version of the scenario ``ball``: Subsample-Test-Reweigh uses all its three rounds."""
    return loading.load("ball", [*BALL, *numbers])
