"""What is public of every learner: its settings, what a call releases, what it looks at, and its plan."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PlainSerializer, PrivateAttr

from common.core.errors import BadMessage, BadScenario
from common.core.registry import TypeRegistry
from common.core.values import PLAN, Value, left_open, may_be_open
from common.local.hypotheses.composed import MAX_CLASSES
from common.local.hypotheses.hypothesis import Hypothesis, ordinary_kinds
from common.privacy.accountants import Plan as Events
from common.privacy.budget import cost, fits, sampling_schedule, smallest_n
from common.privacy.events import Event, NonPrivate, parts_of
from common.privacy.guarantee import Protected
from common.statistics.formulas import CORRECTIONS, PAPER, PlannedValue, follow

V = TypeVar("V", bound="OpenSettings")
S = TypeVar("S", bound="LearnerSettings")


@dataclass(frozen=True)
class PlanRequest:
    """The numbers of a scenario that the plan of its learner depends on; ``plan`` where one is open.

    Attributes:
        paper: Whether to compute as the paper does.
        alpha, beta, accuracy: Of the run; and the loss on mu, at most, that every call is to reach.
        dimension: d, of the curator's people.
        chi_squared, supremum: X = chi^2(T||S) + 1 and, where it is known, D_inf.
        vc_dimension, hypotheses: Size of the class, where the scenario says it.
        epsilon, delta: The curator's whole budget; None for none.
        given_n, given_rounds: n and T as the scenario has them.
        agnostic: Whether nothing is assumed of the best hypothesis' loss.
    """

    paper: bool
    alpha: float
    beta: float
    accuracy: float
    dimension: int
    chi_squared: float
    supremum: float | None
    vc_dimension: int | None
    hypotheses: int | None
    epsilon: float | None
    delta: float | None
    given_n: int | Literal["plan"]
    given_rounds: int | Literal["plan"]
    agnostic: bool

    def delta_budget(self, what: str) -> tuple[float, float]:
        """Return the curator's epsilon and its positive delta, to plan ``what``; BadScenario if one is missing."""
        if self.epsilon is None or not self.delta:
            raise BadScenario(f"planning {what} needs the curator's epsilon and a positive delta")
        return self.epsilon, self.delta


@dataclass(frozen=True)
class PlanTask(PlanRequest):
    """A request with what was settled before its learner.

    Attributes:
        rounds: T.
        kappa, eta: Density (None without projection) and step of multiplicative weights.
        sample: n that the statistics ask for.
        before: Number of reweighs before the first round.
        beside: What is released beside the learner's calls, out of the same budget.
    """

    rounds: int
    kappa: float | None
    eta: float
    sample: int
    before: int
    beside: Events

    @property
    def budget(self) -> tuple[float, float, float] | None:
        """The curator's epsilon and delta, and kappa; None where one of them is missing."""
        if self.epsilon is None or self.delta is None or self.kappa is None:
            return None
        return self.epsilon, self.delta, self.kappa

    def calls(self, n: int) -> Calls:
        return Calls(n, self.kappa, self.eta, self.rounds, self.before)

    def any_people(self, source: str, formula: str = "n of the statistics; any n is as private") -> PlannedValue:
        """Return n where privacy is the same for every n: what the statistics ask for."""
        return follow(self.given_n, lambda: self.sample, formula, source)


class ClassColumns(Value):
    """C = ``count`` classes, from 2 to 64, that stand as one-hot columns among the features from ``first`` on."""

    first: int = Field(ge=1, lt=1 << 16)
    count: int = Field(ge=2, le=MAX_CLASSES)


class OpenSettings(Value):
    """A learner's settings as a scenario gives them: those whose type says so may be left at ``plan``.

    A learner of which something may be left open has a class of such settings, from which the class of the settled ones
    derives and narrows the types of these fields: settled settings are open ones of which nothing is open. The open
    class chooses (:meth:`complete`), the settled one states what its calls cost and need.
    """

    name: str

    by_choice: ClassVar[frozenset[str]] = frozenset()
    """Which hypotheses it may give that are accepted only by choice (``Hypothesis.by_choice``)."""

    reweighs: ClassVar[bool] = True
    """Whether it learns from draws of mu; if not, it sees the sample as it is, and the weights do not matter."""

    finds_parities: ClassVar[bool] = False
    """Whether it learns parities: the best of these, not of half-spaces, is what it is compared with."""

    least: ClassVar[tuple[str, ...]] = ()
    """Settings with a least number, which :meth:`LearnerSettings.planned_values` has: fewer break the accuracy."""

    _written: dict[str, Any] | None = PrivateAttr(default=None)

    @property
    def protected(self) -> Protected:
        """What of a person's record its privacy event speaks of: the whole of it, unless the learner says less."""
        return "records"

    @property
    def features_are_public(self) -> bool:
        """Whether the scenario states, where labels alone are protected, that features are public."""
        return False

    @property
    def class_columns(self) -> tuple[int, int]:
        """The features that take the place of the label, its ``classes``: the first of them, and how many."""
        classes: ClassColumns | None = getattr(self, "classes", None)
        return (0, 0) if classes is None else (classes.first, classes.count)

    @property
    def surrogate_loss(self) -> str | None:
        """The surrogate loss that the learner minimises, where that is known."""
        return None

    @property
    def reach(self) -> float:
        """By how much a linear loss may differ between two hypotheses of its class; 1 where it has no such bound."""
        return 1.0

    @property
    def as_written(self) -> dict[str, Any]:
        """The JSON form as a scenario has it: without what it leaves to the defaults, and numbers as they are given."""
        return self._written or {"name": self.name, **self.model_dump(mode="json", exclude_unset=True)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        if update and copied._written is not None:
            copied._written = copied._written | copied.model_dump(mode="json", include=set(update))
        return copied

    def given(self, name: str) -> Any:
        return getattr(self, name)

    def settled(self, kind: type[S], **numbers: Any) -> S:
        """Return settled settings of this kind: these with the given numbers, in JSON form, where they are at ``plan``.

        Raises:
            BadScenario: If one is out of range.
        """
        written = self.as_written
        return _read(kind.parse, {key: numbers[key] if left_open(value) else value for key, value in written.items()})

    def planned_rounds(self, request: PlanRequest) -> PlannedValue | None:
        """Return T where the learner itself decides it; None where multiplicative weights do."""
        return None

    def planned_sample(self, request: PlanRequest) -> PlannedValue | None:
        """Return the n that the statistics ask for, where the learner itself decides it; None for Lemma 3.2."""
        return None

    def complete(self, task: PlanTask, n: int | None) -> LearnerSettings:
        """Fill in what the settings leave open, for n people (None: n follows later).

        Raises:
            BadScenario, BadInput, BudgetExceeded: If there is no such number.
        """
        if not isinstance(self, LearnerSettings):
            raise BadScenario(f"nothing of the learner {self.name!r} can be left at plan")
        return self

    def plan(self, task: PlanTask) -> tuple[LearnerSettings, PlannedValue]:
        """Return the settled settings, and n; errors as those of :meth:`complete`."""
        learner = self.complete(task, None if task.given_n == PLAN else task.given_n)
        return learner, learner.planned_people(task)


class LearnerSettings(OpenSettings):
    """A learner's public settings, all of them known."""

    paper_limit: ClassVar[tuple[str, float] | None] = None
    """The paper's theorem about the learner, and below which epsilon it is proven; None if it has none."""

    @abstractmethod
    def event(self, tv_bound: float) -> Event:
        """Declare what one call costs, before it runs; TV(mu, mu') of neighbouring samples is at most ``tv_bound``."""

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether it can have released a hypothesis; by default, any that all accept, and those ``by_choice``."""
        return hypothesis.kind in ordinary_kinds() | self.by_choice

    def greatest_loss(self, norm: float, dimension: int) -> float:
        """Return a bound on its surrogate loss, for all that it can give, on records of a norm; infinite if none."""
        return math.inf

    def steepest(self, norm: float, dimension: int) -> float:
        """Return a bound on how long a gradient of that loss is; infinite if none is known."""
        return math.inf

    @property
    def clipped(self) -> float:
        """The length to which it clips gradients, infinite where it does not."""
        return math.inf

    @property
    def shown_features(self) -> int | None:
        """How many features, from the first on, are taken for public; None: all.

        0 unless it protects labels only; then those before the columns of the classes, if there are such.
        """
        if self.protected != "labels":
            return 0
        first, count = self.class_columns
        return first if count else None

    def planned_people(self, task: PlanTask) -> PlannedValue:
        """Return n: what the statistics ask for or, if more, what the budget does."""
        budget = task.budget
        if budget is None:
            return task.any_people(PAPER + "Lemma 3.2", "n of the statistics (no privacy)")
        found = self.paper_people(task, *budget) if task.paper else None
        if found is not None:
            return found
        least = partial(smallest_n, *budget, lambda size: [*(task.calls(size).events(self) or ()), *task.beside])
        text = "max(n of the statistics, least n whose rounds cost at most epsilon)"
        return follow(task.given_n, lambda: max(task.sample, least()), text, CORRECTIONS + "curator")

    def paper_people(self, task: PlanTask, epsilon: float, delta: float, kappa: float) -> PlannedValue | None:
        """Return n by the paper's own formula, for the learner's budget; None if it has none."""
        return None

    def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
        """Return the settings that are numbers of the plan, by name; ``asked`` has them as the scenario does."""
        return {}

    def chosen_value(self, asked: OpenSettings, name: str, formula: str, source: str) -> PlannedValue:
        """Return a setting that a plan chooses, and for which there is no rule where the scenario gives it."""
        value = getattr(self, name)
        return PlannedValue(
            value=value, rule=value if asked.given(name) == PLAN else None, formula=formula, source=source
        )


SETTINGS: TypeRegistry[LearnerSettings] = TypeRegistry("learner", __name__, "name")
"""The settled settings of every learner: with their event and their plan, all that is public of it."""


def open_form(name: str) -> type[OpenSettings]:
    """Return the open class from which a learner's settled settings derive, or :class:`OpenSettings` itself."""
    kinds = (kind for kind in SETTINGS[name].__mro__ if issubclass(kind, OpenSettings))
    return next(kind for kind in kinds if not issubclass(kind, LearnerSettings))


def parse_settings(written: Any) -> OpenSettings:
    """Return a learner's settings, settled ones unless a value is at ``plan``; BadScenario if something is wrong."""
    opened = [key for key, value in written.items() if left_open(value)] if isinstance(written, dict) else []
    name = written.get("name") if opened else None
    if not isinstance(name, str) or name not in SETTINGS.names():
        return _read(SETTINGS.parse, written)
    kind = open_form(name)
    fields = kind.model_fields
    closed = [key for key in opened if key not in fields or not may_be_open(fields[key].annotation)]
    if closed:
        raise BadScenario(f"curator.learner.{closed[0]} cannot be left at plan for the learner {name!r}")
    return _read(kind.parse, written)


def _read(parse: Callable[[Any], V], written: Any) -> V:
    try:
        found = parse(written)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
    found._written = written
    return found


def _accepted(value: Any) -> OpenSettings:
    return value if isinstance(value, OpenSettings) else parse_settings(value)


_AS_WRITTEN = PlainSerializer(lambda settings: settings.as_written, return_type=dict[str, Any])
AnyOpenLearner = Annotated[OpenSettings, BeforeValidator(_accepted), _AS_WRITTEN]
"""A field of a value that holds any learner's settings, settled or not; its JSON form is what was written."""
AnyLearner = Annotated[LearnerSettings, BeforeValidator(_accepted), _AS_WRITTEN]  # the same of settled settings


@dataclass(frozen=True)
class Calls:
    """A run's calls of its learner, one a round; see :class:`PlanTask`, ``n`` is the size of the curator's sample."""

    n: int
    kappa: float | None
    eta: float
    rounds: int
    before: int = 0

    @property
    def schedule(self) -> Sequence[float]:
        """One sampling bound s_t >= TV(mu, mu') a round."""
        if self.kappa is None:
            return (1.0,) * self.rounds
        return sampling_schedule(self.n, self.kappa, self.eta, self.rounds, self.before)

    def events(self, learner: LearnerSettings) -> Events | None:
        """Return what all calls release; None if the learner guarantees nothing."""
        rounds: Counter[Event] = Counter()
        for tv_bound, times in Counter(self.schedule).items():
            for part in parts_of(learner.event(tv_bound)):
                rounds[part] += times
        return None if any(isinstance(event, NonPrivate) for event in rounds) else list(rounds.items())

    def spent(self, learner: LearnerSettings, delta: float) -> float:
        """Return the epsilon that all calls cost at ``delta``, infinite if the learner guarantees nothing."""
        events = self.events(learner)
        return math.inf if events is None else cost(events, delta)

    def affordable(
        self, learner: LearnerSettings, epsilon: float, delta: float, *, beside: Events = (), quick: bool = False
    ) -> bool:
        """Tell whether the budget holds all calls, and what is released ``beside`` them; quicker than :meth:`spent`.

        If ``quick``, only accountants are asked that answer at once.
        """
        events = self.events(learner)
        return events is not None and fits([*events, *beside], epsilon, delta, quick=quick)
