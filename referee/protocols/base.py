"""What a protocol is: a generator over messages, with a declared message pattern.

A protocol yields :class:`AskCurator`, :class:`AskAgents`, :class:`Together` and :class:`Progress`, receives the answer
to each, and returns an :class:`Outcome`. It is deterministic given its parameters and the answers: resume and audit are
replay.
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
from common.local.mechanisms.mechanism import BitMechanism, LocalRandomizer, Mechanism
from common.local.queries.query import AskAgents
from common.operations.target_bound import TargetBound
from common.protocols.base import AskCurator, PlanInputs, Problem, Progress, Together, as_bits, pattern_of
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
    """A candidate of a protocol that judges several: its name, what it is, and what ``asked`` agents say about it."""

    name: str
    hypothesis: Hypothesis
    estimate: Estimate
    asked: int


@dataclass(frozen=True)
class Comparison:
    """The answer's loss on T less that of its rival, the best that either side is believed to have alone.

    Attributes:
        rival: The name of a candidate.
        value, low, high: The estimate and its interval, which holds with the given confidence together with all else
            that a result states.
        likely, probable: Bounds each of which holds by itself with the probability
            :data:`common.statistics.finalists.LIKELY`, and ``PROBABLE`` there.
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
        found = {"difference": difference, "likely": likely, "probably": probably}
        return {"with": self.rival, **found, "agents": self.agents}


@dataclass(frozen=True)
class BestConstant:
    """The constant that is believed to be best, what agents said of it, and the answer beside the best of all.

    A constant that is the answer's rival is none of them.
    """

    candidate: JudgedCandidate
    comparison: Comparison

    @property
    def vague(self) -> BestConstant:
        estimate = self.candidate.estimate.model_copy(update={"low": 0.0, "high": 1.0})
        return BestConstant(replace(self.candidate, estimate=estimate), self.comparison.vague)

    def wire(self) -> dict[str, Any]:
        of = self.candidate
        known = {"hypothesis": of.hypothesis.wire(), "estimate": of.estimate.wire(), "asked": of.asked}
        return {**known, **self.comparison.wire()}


@dataclass(frozen=True)
class TestedPair:
    """By how much the answer's loss on T is above a rival's: an estimate with an interval, one of a protocol's pairs.

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
        iterations: Rounds that were used.
        answer, estimate, reason: What was found, what the agents say about it, and why it ended there.
        tasks: Of a protocol that learns several things: how each ended, in order. The rest is then that of the last
            one, and the iterations are those of all.
        judged, gap: Of a protocol that judges several candidates: each of them, and by how much the answer's loss may
            exceed the least. All intervals and the gap hold together with the estimate's confidence.
        constant: The answer beside saying the same to everybody, as far as agents told of that; where its rival is a
            constant, beside all others.
        summary: What the estimate is made of, where that is counted: an audit sees from it what liars could have moved.
        silent: What those who were asked and did not answer could change; None where all answered.
        pairs: Of a protocol that compares the answer with rivals: what agents say of each pair of the last round.
        bound: Of an adaptation: what both samples alone say of the answer's loss on T, where that was asked for.
        calibrated: A hypothesis whose margin is the logarithm of the odds of +1, as agents recalibrated a model's score
            on T, also where the answer is another one; None where they did not.
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
    silent: Silent | None = None
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
        """Return this answer as that of a protocol which used up ``iterations`` rounds."""
        return replace(self, iterations=iterations, reason=reason)


@dataclass(frozen=True)
class AnswerSummary:
    """What an estimate is made of, as :func:`common.statistics.robustness.robust_estimate` takes it.

    ``asked`` agents were asked for these answers; ``once``: for all of them before any was seen.
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
        """Return what is known if the answers that are not there were left out because of what they say."""
        return self._estimate(self.liars, self.asked - self.count)

    def _estimate(self, share: float, missing: int) -> Estimate:
        numbers = (self.mechanism, self.total, self.count, self.confidence, self.among)
        return robust_estimate(*numbers, share=share, missing=missing, once=self.once)


@dataclass(frozen=True)
class Silent:
    """What those who did not answer could change about an outcome, were they to differ from those who did.

    Attributes:
        estimate, gap: What is known of all people in the place of the outcome's own, if silence depends on their
            records alone; None where it has none.
        left_out: What is known of all people if it may depend on the answers as well: somebody has seen them, and left
            some out (:func:`common.statistics.robustness.robust_estimate`). It needs nothing of those who did not
            answer; None where it is not known which answers the estimate is made of.
        matters: Whether what the run has shown depends on them: ``left_out`` is unknown, reaches the level that was to
            be shown, or is wider than :data:`~common.statistics.intervals.VAGUE` where no level was shown.
    """

    silence: Silence
    estimate: Estimate | None
    gap: float | None
    left_out: Estimate | None
    matters: bool


P = TypeVar("P", bound=Problem)
Step = AskCurator | AskAgents | Together | Progress
Script = Generator[Step, Any, Outcome]


class Protocol(ABC):
    """A protocol: its name, its pattern, its script."""

    pattern: Pattern
    done: str = "it ended with its answer; nothing is stated about that but the interval of its estimate"
    """What is shown where a run ends ``done``, and with which probability: no more than its theorem.

    Filled in by :func:`shown_by`: ``level``, ``alpha``, ``beta``, and ``sure``, which is 1 - beta.
    """
    tests_level: bool = False
    """Whether, in mode ``realizable``, it ends done where a test shows the loss on T to be below a level."""
    supports_byzantine_agents: bool = False
    """Whether its tests and intervals hold for the lies that ``agents.liars`` allows among the first n answers."""
    problem: str | None = None  # name of the problem that its scenarios have; None: a hypothesis with a small loss
    small: ClassVar[tuple[Any, ...]] = ()
    """What makes a shipped scenario (``ball``; about a problem, its own: its people first) an example."""

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return scenarios of it that run in a fraction of a second; they may leave numbers at ``plan``."""
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
class ProblemPlan(Generic[P]):
    """The numbers of a resolved scenario that the script of its problem uses.

    The curator has n people, and epsilon ``share`` for each of its releases; ``count`` agents randomize by
    ``mechanism``; from ``hybrid`` follows the plan of both sides.
    """

    problem: P
    alpha: float
    beta: float
    n: int
    share: float
    count: int
    mechanism: LocalRandomizer
    hybrid: PlanInputs

    @property
    def bits(self) -> BitMechanism:
        """The mechanism, of agents who answer with a bit; else :class:`BadScenario`."""
        return as_bits(self.mechanism)

    def oracle(self, known: str) -> FrequencyOracle:
        """Return the mechanism, of agents who report an item; else :class:`BadScenario` that names those ``known``."""
        if not isinstance(self.mechanism, FrequencyOracle):
            raise BadScenario(f"{self.problem.name} needs a frequency oracle as agents.mechanism: take {known}")
        return self.mechanism


BY_NORMAL_LAW = "by the normal law, which is no bound, "
AS_PLANNED = (
    "at the sizes of the tight plan, for people as the problem describes them and if those who answer are like all"
)
"""Parts of what is shown about a problem."""


class ProblemProtocol(Protocol, Generic[P]):
    """A protocol about a problem, and what remains of it where one side is left out (scenario key ``alone``)."""

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
        return ProblemPlan(
            problem=problem,
            alpha=scenario.alpha,
            beta=scenario.beta,
            n=scenario.curator.n,
            share=scenario.curator.share,
            count=scenario.agents.count,
            mechanism=scenario.agents.mechanism,
            hybrid=scenario.plan_inputs,
        )

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        return self.both_sides(self.plan(scenario), public)

    @abstractmethod
    def both_sides(self, plan: ProblemPlan[P], public: int) -> Script:
        """Solve the problem with curator and agents."""

    def curator_alone(self, plan: ProblemPlan[P], public: int) -> Script:
        """Do what the curator can do alone, if the demands say that something remains for it."""
        raise AssertionError("this problem's demands leave nothing to the curator alone")

    def agents_alone(self, plan: ProblemPlan[P], public: int) -> Script:
        """Do what the agents can do alone, likewise."""
        raise AssertionError("this problem's demands leave nothing to the agents alone")


class Ablation(Protocol):
    """A protocol about a problem of which one side remains: it shows what the other is needed for."""

    def __init__(self, name: str, side: Party) -> None:
        whole = PROTOCOLS[name]
        if not issubclass(whole, ProblemProtocol):
            raise BadScenario(f"nothing remains of protocol {name!r} for {side} alone")
        self.side = side
        self.whole: ProblemProtocol[Any] = whole()
        self.problem = whole.problem
        self.pattern = pattern_of(name, side)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        alone = self.whole.curator_alone if self.side == "curator" else self.whole.agents_alone
        return alone(self.whole.plan(scenario), public)


def halts(scenario: Scenario) -> bool:
    """Tell whether a run of the scenario halts where the loss on T is shown to be below a level."""
    searches = scenario.halts and scenario.problem is None
    return searches and scenario.protocol in PROTOCOLS and PROTOCOLS[scenario.protocol].tests_level


def level_of(scenario: Scenario) -> float | None:
    """Return the level below which the loss is to be shown; None where a run has no such level."""
    return scenario.levels[1] if halts(scenario) else None


def tested_loss(scenario: Scenario) -> str:
    """Return the name of the loss that agents test, with its bound if it is counted as a part of that."""
    agents = scenario.agents
    if agents.costs is not None:
        return f"mean cost of a person ({agents.costs.text}) as a part of {agents.costs.heaviest:g}"
    return f"{agents.loss} loss" + ("" if agents.bound == UNIT else f" (as a part of {agents.bound:g})")


def difference_in_words(loss: str, costs: Costs | None, value: float) -> str:
    """Return a difference of two losses, rounded up: in points or costs where the loss is about mistakes."""
    return points(value, costs) if loss == "zero-one" else f"{math.ceil(value * 1e4 - 1e-9) / 1e4:g}"


BUT = "; but "  # in a reason, before why a run does not end as its script did


def all_used(rounds: int) -> str:
    """Begin the reason of a run whose last round's hypothesis was rejected as well."""
    return f"all {rounds} rounds were used"


def shown_by(scenario: Scenario, gap: float | None = None) -> str:
    """Say what is shown where a run of the scenario ends ``done`` (:attr:`Protocol.done`), in its own numbers.

    ``gap`` is the one that the run states, alpha at most; None: the run is still to come, or states none.
    """
    claimed = PROTOCOLS[scenario.protocol] if scenario.alone is None else Protocol
    agents, level = scenario.agents, scenario.levels[1]
    bound = f", {tested_loss(scenario)}," if agents.bound != UNIT else ""
    shown = claimed.done.format(
        alpha=f"{scenario.alpha:g}",
        gap=difference_in_words(agents.loss, agents.costs, scenario.alpha if gap is None else gap),
        beta=f"{scenario.beta:g}",
        sure=probability(1.0 - scenario.beta),
        level=f"{100.0 * level:.10g}%" if agents.loss == "zero-one" else f"{level:g}{bound}",
        more=difference_in_words(agents.loss, agents.costs, level),
    )
    lies = f"; if of the first n answers, for every n, at most {agents.liars:g} n are lies" if agents.liars else ""
    return shown + lies


def check_problem(scenario: Scenario) -> None:
    """Refuse a scenario whose problem is not the one that its protocol is about; BadScenario names both."""
    wanted, given = PROTOCOLS[scenario.protocol].problem, scenario.problem and scenario.problem.name
    if given != wanted:
        raise BadScenario(f"protocol {scenario.protocol} is about problem {wanted or 'none'}, found {given or 'none'}")


def protocol_of(scenario: ResolvedScenario) -> Protocol:
    """Return the protocol that a scenario runs: the one it names, or what remains of it for a side that is alone.

    BadInput says that there is none of that name, BadScenario that its problem is another one, or that the scenario
    assumes liars, of which this protocol's intervals know nothing, or whom its agents' answers do not bear.
    """
    check_problem(scenario)
    whole = PROTOCOLS[scenario.protocol]
    found = whole() if scenario.alone is None else Ablation(scenario.protocol, scenario.alone)
    if scenario.agents.liars and not found.supports_byzantine_agents:
        raise BadScenario(f"agents.liars: {scenario.protocol} has no intervals that bear liars: leave it out")
    if scenario.agents.liars and not isinstance(scenario.agents.mechanism, BitMechanism):
        name = scenario.agents.mechanism.name
        raise BadScenario(
            f"agents.liars: a liar moves answers of {name} as far as it likes: take warner, or leave it out"
        )
    return found


BALL = (
    "curator.n=1200", "curator.kappa=0.2", "curator.eta=0.2", "curator.rounds=3", "curator.epsilon=60",
    "curator.learner.steps=300", "agents.count=6000", "agents.mechanism.epsilon=2", "agents.batch=400",
    "agents.deadline=5",
)  # fmt: skip


def small_ball(*numbers: str) -> Scenario:
    """Return the scenario ``ball`` made small: Subsample-Test-Reweigh uses all its three rounds."""
    return loading.load("ball", [*BALL, *numbers])
