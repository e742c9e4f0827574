"""What every party knows about a protocol: what it asks of both sides, and the problem that it solves, with its plan.

The driver holds the referee's script to the pattern that is declared here, and a curator that agreed to a scenario
refuses operations that are not in the pattern.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from common.core.errors import BadInput, BadScenario
from common.core.registry import Registry, TypeRegistry
from common.core.values import FromPlan, Value
from common.data.distributions.base import Distribution
from common.learners.base import OpenSettings
from common.local.mechanisms.mechanism import BitMechanism, LocalRandomizer
from common.local.queries.query import AskAgents
from common.operations.operation import Operation
from common.protocols.patterns import Pattern, agents, curator, many, maybe, sequence, some
from common.statistics.formulas import CORRECTIONS, PlannedValue, enrolled, follow


@dataclass(frozen=True)
class Demands:
    """What a protocol requires, and what it supports.

    Attributes:
        pattern: Which messages it may send to whom, in which order.
        reweighs: It reweighs the curator's sample, for which it needs the bound on the divergence. If not, the curator
            learns once, and all agents test what was learned.
        portfolio: It judges several models and their recalibrations; the scenario may set how it spends.
        counts: As a portfolio, it counts the curator's people by score and label, and likewise surveys the population.
        claims: A theorem says how accurate its answer is, for a sample, rounds and a learner that are large enough
            (``mode: realizable``). If not, no size is refused as too small.
        transfers: Its answer is a model of the curator's people that is meant for the population: a portfolio may judge
            it.
        further: Operations beyond one per round, by kind.
        several_tasks: It can learn several things about the same people, if the scenario names them.
        alone: The pattern for a side whose other side is left out, by ``curator`` and ``agents``.
        takes_over: It can begin with the weights of an earlier run (scenario key handed_over).
        repeats: It can ask an agent several times (agents.answers).
        answers: The kind of an agent's answer: a ``value`` in [0, 1], or a ``bit``; None: the problem decides.
        bounded: It tests a convex loss as a part of a bound.
        pairs: It tests, and reweighs by, differences of the losses of two hypotheses.
    """

    pattern: Pattern
    reweighs: bool = True
    portfolio: bool = False
    counts: bool = True
    claims: bool = True
    transfers: bool = False
    further: Mapping[str, int] = field(default_factory=dict)
    several_tasks: bool = False
    alone: Mapping[str, Pattern] = field(default_factory=dict)
    takes_over: bool = False
    repeats: bool = False
    answers: Literal["value", "bit"] | None = None
    bounded: bool = False
    pairs: bool = False


SYNERGY = CORRECTIONS + "synergy"
DEMANDS: Registry[Demands] = Registry("protocol's demands", __name__, group="demands")
USUAL = "subsample-test-reweigh"


def demands_of(protocol: str) -> Demands:
    """Return the demands of a protocol; the usual ones for an unknown name, which the party that runs it refuses."""
    return DEMANDS[protocol if protocol in DEMANDS.names() else USUAL]


def pattern_of(protocol: str, alone: str | None = None) -> Pattern:
    """Return a protocol's message pattern, or that of one side alone; BadInput if there is none."""
    if protocol not in DEMANDS.names():
        raise BadInput(
            f"protocol {protocol!r} declares no pattern; known: {', '.join(DEMANDS.names())}. A package that adds a "
            f"protocol declares its pattern by an entry point in the group tandem.demands"
        )
    demands = DEMANDS[protocol]
    if alone is None:
        return demands.pattern
    if alone not in demands.alone:
        raise BadInput(f"nothing remains of protocol {protocol!r} for {alone} alone")
    return demands.alone[alone]


def as_bits(mechanism: LocalRandomizer) -> BitMechanism:
    """Return the mechanism if agents answer with a bit; BadScenario if its answers are something else."""
    if not isinstance(mechanism, BitMechanism):
        raise BadScenario(
            f"agents.mechanism: this protocol's agents answer with a bit, found {mechanism.name}: take warner"
        )
    return mechanism


@dataclass(frozen=True)
class PlanInputs:
    """The numbers of a scenario from which the plan of its problem follows.

    ``n`` and ``count`` (of agents) may be ``plan``; ``epsilon`` is the curator's budget, None if it has none;
    ``dropout`` is the share of the agents who do not answer.
    """

    alpha: float
    beta: float
    n: int | FromPlan
    count: int | FromPlan
    epsilon: float | None
    learner: OpenSettings | None
    mechanism: LocalRandomizer
    dropout: float

    def private(self, reason: str) -> float:
        """Return the curator's epsilon; BadScenario if there is none: ``reason`` says what it is needed for."""
        if self.epsilon is None:
            raise BadScenario(f"curator.epsilon: {reason}, give one")
        return self.epsilon

    @property
    def truth(self) -> float:
        """Probability with which an agent reports its true bit."""
        return as_bits(self.mechanism).truth

    def people(self, rule: Callable[[], float], formula: str, source: str = SYNERGY) -> PlannedValue:
        return follow(self.n, rule, formula, source)

    def agents(
        self, answers: Callable[[], float], formula: str, source: str = SYNERGY, questions: int = 1
    ) -> PlannedValue:
        """Return the number of agents and the rule's: ``answers`` to each of ``questions``, and more for dropout."""
        return follow(self.count, lambda: questions * enrolled(math.ceil(answers()), self.dropout), formula, source)


class Problem(Value):
    """What a protocol is to find out about people of one distribution, as public numbers.

    It defines the meaning of a record's features, what a right answer is, and how many people a guarantee needs.
    """

    name: str

    releases: ClassVar[Mapping[str | None, int]] = {}
    """Number of releases that share the curator's epsilon, by the side that is alone; one by default."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features of a record."""

    @abstractmethod
    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return what only a simulation can know of an answer: ``correct``, and the numbers that say why.

        Args:
            answer: Its JSON form; BadMessage if it is not an answer to this problem.
            people: The distribution T; BadScenario if the truth about such people is not known.
        """

    @abstractmethod
    def plan(self, inputs: PlanInputs, paper: bool) -> dict[str, PlannedValue]:
        """Return every number of a run: ``n``, ``agents``, and settings of the curator's learner, by name.

        BadScenario or BadInput if there is no such number: its text says what to change.
        """


PROBLEMS: TypeRegistry[Problem] = TypeRegistry("problem", __name__, "name", group="problems")
AnyProblem = Annotated[SerializeAsAny[Problem], BeforeValidator(PROBLEMS.accept)]
"""A field of a value that holds any registered problem."""


@dataclass(frozen=True)
class AskCurator:
    """Ask the curator to carry out an operation; the reply is the operation's own result, parsed and checked."""

    operation: Operation[Any]


@dataclass(frozen=True)
class AskTogether:
    """Ask several things at once; the reply is the list of replies."""

    steps: tuple[AskCurator | AskAgents, ...]


@dataclass(frozen=True)
class Progress:
    """Report progress to observers; the reply is None."""

    text: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Testing(Progress):
    """Report the state of a test between two of its questions: valid until the next one, and part of no result."""


LEARN, REWEIGH, LOSS = curator("learn"), curator("reweigh"), agents("loss")


def rounds(question: Pattern) -> Pattern:
    """Return rounds in which the curator learns, agents are asked, and the curator may reweigh."""
    return many(sequence(LEARN, some(question), maybe(REWEIGH)))


PATTERN = sequence(many(REWEIGH), rounds(LOSS))  # beginning with the weights of an earlier run
DEMANDS.register("subsample-test-reweigh")(
    Demands(PATTERN, transfers=True, takes_over=True, answers="value", bounded=True)
)
DEMANDS.register("hand-over")(Demands(PATTERN, several_tasks=True, takes_over=True, answers="value", bounded=True))
DEMANDS.register("discrepancy")(
    Demands(sequence(agents("moment"), rounds(agents("pair")), LOSS), claims=False, answers="bit", pairs=True)
)
DEMANDS.register("learn-and-test")(
    Demands(sequence(LEARN, LOSS), reweighs=False, claims=False, transfers=True, answers="value", bounded=True)
)
DEMANDS.register("model-agnostic")(Demands(sequence(curator("label"), LOSS), reweighs=False, answers="value"))
DEMANDS.register("local-averages")(Demands(sequence(agents("moment"), LOSS), claims=False, answers="value"))
DEMANDS.register("local-gradient-descent")(
    Demands(sequence(some(agents("gradient")), LOSS), claims=False, repeats=True, answers="value")
)
