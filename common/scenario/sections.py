"""The sections of a scenario that are not a problem's or a table's: accuracy, divergence, curator and agents."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import PLAN, FromPlan, Value
from common.learners.base import AnyOpenLearner, LearnerSettings, OpenSettings
from common.local.losses import UNIT, Bound, Costs, Loss
from common.local.mechanisms.mechanism import AnyMechanism, BitMechanism, Mechanism
from common.privacy.guarantee import PrivacyGuarantee, of_agent, of_curator, repeated
from common.protocols.base import as_bits

MAX_ROUNDS = 10_000_000  # most rounds of a run: the privacy of each is planned before the first

SampleSize = Annotated[int, Field(ge=1, lt=1 << 32)]
Density = Annotated[float, Field(gt=0, le=1)]
Step = Annotated[float, Field(gt=0)]
Rounds = Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
AgentCount = Annotated[int, Field(ge=1, le=1 << 32)]


class Moment(Value):
    """A public bound on a higher moment of the importance weights w = dT/dS: E_S[w^order] <= bound."""

    order: float = Field(gt=2, le=1000)
    bound: float = Field(ge=1)


class Divergence(Value):
    """What is publicly assumed about S and T: X = chi^2(T||S) + 1 >= 1, the second moment of the weights under S.

    Also D_inf = sup dT/dS and higher moments, if known: the plan uses the larger density that they allow.
    """

    chi_squared: float = Field(ge=1)
    supremum: float | None = Field(default=None, ge=1)
    moments: tuple[Moment, ...] = Field(default=(), max_length=64)

    @property
    def known(self) -> tuple[float, float | None, dict[float, float]]:
        """X, D_inf and M_p by order p, as :func:`common.statistics.formulas.density` takes them."""
        return self.chi_squared, self.supremum, {moment.order: moment.bound for moment in self.moments}


class Accuracy(Value):
    """How the target accuracy is split, in units of alpha; the defaults are those of Theorem 4.3.

    ``learner`` bounds the learner's loss on its reweighed distribution. The run halts when the loss on T is shown to be
    below ``halt_below``, and reweighs when it is shown to be above ``reweigh_above``. All three are in addition to
    ``best``, alpha_H, the stated loss of the best of the class; with it, an agnostic run halts, too.
    """

    learner: float = Field(default=1.0, gt=0)
    halt_below: float = Field(default=4.0, gt=0)
    reweigh_above: float = Field(default=2.0, gt=0)
    best: float | None = Field(default=None, ge=0, lt=1, exclude_if=lambda best: best is None)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.reweigh_above >= self.halt_below:
            raise ValueError(f"reweigh_above = {self.reweigh_above} must be below halt_below = {self.halt_below}")
        return self


class Storage(Value):
    """How the curator keeps its sample (docs/scale.md): in this process, or in Ray ``workers``, all of them its own."""

    numbers: Literal["single", "fixed"] = "single"
    place: Literal["memory", "disk"] = "memory"
    workers: int = Field(default=0, ge=0, le=1024)


class Lifetime(Value):
    """What all runs may cost a person together, on either side, by basic composition; a later run cannot raise it."""

    epsilon: float = Field(gt=0)
    delta: float = Field(ge=0, lt=1)


class CuratorSection(Value):
    """The curator's own policy: what it will do at most, for everybody to see.

    ``learner`` is null where the protocol asks for other operations; each may then cost ``epsilon / rounds``. Without
    ``epsilon`` and ``delta`` nothing is private; ``kappa: null`` then leaves out the projection (Algorithm 1). Real
    people take part in a further run only if a ``lifetime`` budget covers all of their runs; it applies to the agents'
    people, too, unless ``agents`` has one of its own.
    """

    n: SampleSize | FromPlan = PLAN
    epsilon: float | None = Field(default=None, gt=0)
    delta: float | None = Field(default=None, ge=0, lt=1)
    kappa: Density | FromPlan | None = PLAN
    eta: Step | FromPlan = PLAN
    rounds: Rounds | FromPlan = PLAN
    lifetime: Lifetime | None = None
    storage: Storage = Storage()
    learner: AnyOpenLearner | None = None

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError(
                f"a budget needs epsilon and delta, which may be 0, or neither; found {self.epsilon} and {self.delta}"
            )
        return self

    @property
    def settings(self) -> OpenSettings:
        """The learner's settings; BadScenario if there is no learner."""
        if self.learner is None:
            raise BadScenario("curator.learner: give the name of a learner and its settings")
        return self.learner

    @property
    def guarantee(self) -> PrivacyGuarantee:
        protects = "records" if self.learner is None else self.learner.protected
        return of_curator((self.epsilon, self.delta), protects)

    @property
    def anything_open(self) -> bool:
        settled = self.learner is None or isinstance(self.learner, LearnerSettings)
        return not settled or PLAN in (self.n, self.kappa, self.eta, self.rounds)


class AgentsSection(Value):
    """The agents' side: how many are enrolled, how they randomize, how the referee tests with their answers.

    Accuracies are about the ``loss`` that is tested: a convex one is clipped at its ``bound`` and counts as a part of
    it; with ``costs`` a mistake counts as its cost, as a part of the heavier one. The curator reweighs by the same
    loss, or by ``mistakes``: then no theorem covers the tested loss, unless that is mistakes. Batches of a sequential
    test grow by half of what was already asked. Tests and intervals hold even if, for every n at which someone looks at
    them, at most a share ``liars`` of the first n answers about a loss are lies (:mod:`common.statistics.robustness`).

    A run may ask each agent ``answers`` times, each time with the mechanism's epsilon and delta.
    """

    count: AgentCount | FromPlan = PLAN
    mechanism: AnyMechanism
    loss: Loss = "zero-one"
    bound: Bound = Field(default=UNIT, exclude_if=lambda bound: bound == UNIT)
    costs: Costs | None = Field(default=None, exclude_if=lambda costs: costs is None)
    reweigh: Literal["tested", "mistakes"] = Field(default="tested", exclude_if=lambda by: by == "tested")
    test: Literal["sequential", "fixed"] = "sequential"
    batch: int = Field(default=1000, ge=1, le=10_000_000)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    liars: float = Field(default=0.0, ge=0, lt=0.5, exclude_if=lambda share: share == 0.0)
    answers: int = Field(default=1, ge=1, le=100, exclude_if=lambda answers: answers == 1)
    deadline: float = Field(default=60.0, gt=0)
    lifetime: Lifetime | None = Field(default=None, exclude_if=lambda lifetime: lifetime is None)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.loss == "zero-one" and self.bound != UNIT:
            raise ValueError("bound is for a convex loss, and mistakes are 0 or 1: leave it out, or set loss")
        if self.costs is not None and self.loss != "zero-one":
            raise ValueError(f"costs are of mistakes, and the loss is {self.loss}: leave them out, or set zero-one")
        return self

    @property
    def tests_convex(self) -> bool:
        """Whether a convex loss is tested, and reweighed by."""
        return self.loss != "zero-one" and self.reweigh == "tested"

    @property
    def guarantee(self) -> PrivacyGuarantee:
        return of_agent(self.cost, "agent" if self.answers == 1 else "answers")

    @property
    def cost(self) -> tuple[float, float]:
        """The (epsilon, delta) of all answers together that a run may ask an agent for."""
        return repeated(self.mechanism.guarantee, self.answers)

    @property
    def value_mechanism(self) -> Mechanism:
        """The mechanism, for protocols that ask for values in [0, 1]; BadScenario if it randomizes items."""
        if not isinstance(self.mechanism, Mechanism):
            reason = f"{self.mechanism.name} randomizes items"
            raise BadScenario(f"agents.mechanism: {reason}, this protocol asks for values in [0, 1]: take warner")
        return self.mechanism

    @property
    def bit_mechanism(self) -> BitMechanism:
        return as_bits(self.mechanism)
