"""The public part of every learner: its settings, the event of a call, the features that it uses, and its plan."""

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
    """The numbers of a scenario on which its learner's plan depends; an open one is ``plan``.

    Attributes:
        paper: Whether to compute as the paper does.
        alpha, beta, accuracy: alpha and beta of the run, and the greatest loss on mu that every call may have.
        dimension: d, number of features of the curator's people.
        chi_squared, supremum: X = chi^2(T||S) + 1 and, if it is known, D_inf.
        vc_dimension, hypotheses: Size of the class, if the scenario states it.
        epsilon, delta: The curator's whole budget; None for none.
        given_n, given_rounds: n and T as in the scenario.
        agnostic: Whether nothing is assumed about the best hypothesis' loss.
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

    def delta_budget(self, subject: str) -> tuple[float, float]:
        """Return the curator's epsilon and its positive delta, to plan ``subject``; BadScenario if one is missing."""
        if self.epsilon is None or not self.delta:
            raise BadScenario(f"planning {subject} needs the curator's epsilon and a positive delta")
        return self.epsilon, self.delta


@dataclass(frozen=True)
class PlanTask(PlanRequest):
    """A request with the numbers that were planned before the learner.

    Attributes:
        rounds: T.
        kappa, eta: Density (None without projection) and step of multiplicative weights.
        sample: n that the statistics require.
        before: Number of reweighs before the first round.
        beside: Events beside the learner's calls that the same budget pays for.
    """

    rounds: int
    kappa: float | None
    eta: float
    sample: int
    before: int
    beside: Events

    @property
    def budget(self) -> tuple[float, float, float] | None:
        """The curator's epsilon and delta, and kappa; None if one of them is missing."""
        if self.epsilon is None or self.delta is None or self.kappa is None:
            return None
        return self.epsilon, self.delta, self.kappa

    def calls(self, n: int) -> Calls:
        return Calls(n, self.kappa, self.eta, self.rounds, self.before)

    def any_people(self, source: str, formula: str = "n of the statistics; any n is as private") -> PlannedValue:
        """Return the n that the statistics require, for a learner whose privacy does not depend on n."""
        return follow(self.given_n, lambda: self.sample, formula, source)


class ClassColumns(Value):
    """C = ``count`` classes, from 2 to 64, as one-hot columns among the features from ``first`` on."""

    first: int = Field(ge=1, lt=1 << 16)
    count: int = Field(ge=2, le=MAX_CLASSES)


class OpenSettings(Value):
    """A learner's settings as a scenario gives them; those whose type allows it may be left at ``plan``.

    A learner with open settings has a class for them. The class of its settled settings derives from that class and
    narrows the types of these fields: settled settings are open settings without open values. The open class chooses
    values (:meth:`complete`); the settled class states the cost and the requirements of calls.
    """

    name: str

    by_choice: ClassVar[frozenset[str]] = frozenset()
    """Kinds of hypotheses that it may return and that are accepted only by choice (``Hypothesis.by_choice``)."""

    reweighs: ClassVar[bool] = True
    """Whether it learns from draws of mu; if not, it uses the sample itself and ignores the weights."""

    finds_parities: ClassVar[bool] = False
    """Whether it learns parities, so that it is compared with the best parity and not with the best half-space."""

    least: ClassVar[tuple[str, ...]] = ()
    """Settings with a minimum from :meth:`LearnerSettings.planned_values`; a smaller value breaks the accuracy."""

    _written: dict[str, Any] | None = PrivateAttr(default=None)

    @property
    def protected(self) -> Protected:
        """The part of a person's record that its privacy event protects: all of it, unless the learner states less."""
        return "records"

    @property
    def features_are_public(self) -> bool:
        """Whether the scenario states that features are public, if labels alone are protected."""
        return False

    @property
    def class_columns(self) -> tuple[int, int]:
        """The first feature and the number of features that replace the label, its ``classes``."""
        classes: ClassColumns | None = getattr(self, "classes", None)
        return (0, 0) if classes is None else (classes.first, classes.count)

    @property
    def surrogate_loss(self) -> str | None:
        """The surrogate loss that the learner minimizes, if that is known."""
        return None

    @property
    def reach(self) -> float:
        """Greatest difference of a linear loss between two hypotheses of its class; 1 if it has no such bound."""
        return 1.0

    @property
    def as_written(self) -> dict[str, Any]:
        """The JSON form as in the scenario: without values that it leaves to the defaults, and numbers as given."""
        return self._written or {"name": self.name, **self.model_dump(mode="json", exclude_unset=True)}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        copy = super().model_copy(update=update, deep=deep)
        if update and copy._written is not None:
            copy._written = copy._written | copy.model_dump(mode="json", include=set(update))
        return copy

    def value(self, name: str) -> Any:
        return getattr(self, name)

    def settled(self, kind: type[S], **numbers: Any) -> S:
        """Return settled settings of this kind: these with the given numbers, in JSON form, instead of ``plan``.

        Raises:
            BadScenario: If one is out of range.
        """
        written = self.as_written
        return _read(kind.parse, {key: numbers[key] if left_open(value) else value for key, value in written.items()})

    def planned_rounds(self, request: PlanRequest) -> PlannedValue | None:
        """Return T if the learner itself determines it; None if multiplicative weights do."""
        return None

    def planned_sample(self, request: PlanRequest) -> PlannedValue | None:
        """Return the n that the statistics require, if the learner itself determines it; None for Lemma 3.2."""
        return None

    def complete(self, task: PlanTask, n: int | None) -> LearnerSettings:
        """Fill in the open settings for n people (None: n is determined later).

        Raises:
            BadScenario, BadInput, BudgetExceeded: If no value is valid.
        """
        if not isinstance(self, LearnerSettings):
            raise BadScenario(f"nothing of the learner {self.name!r} can be left at plan")
        return self

    def plan(self, task: PlanTask) -> tuple[LearnerSettings, PlannedValue]:
        """Return the settled settings, and n; raises the errors of :meth:`complete`."""
        learner = self.complete(task, None if task.given_n == PLAN else task.given_n)
        return learner, learner.planned_people(task)


class LearnerSettings(OpenSettings):
    """A learner's public settings without open values."""

    paper_limit: ClassVar[tuple[str, float] | None] = None
    """The paper's theorem about the learner, and the epsilon below which it is proven; None if there is none."""

    @abstractmethod
    def event(self, tv_bound: float) -> Event:
        """Return the event of one call, before it runs; TV(mu, mu') of neighbouring samples is at most ``tv_bound``."""

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Return whether it can have released a hypothesis; by default any ordinary kind, and those ``by_choice``."""
        return hypothesis.kind in ordinary_kinds() | self.by_choice

    def greatest_loss(self, norm: float, dimension: int) -> float:
        """Return a bound on its surrogate loss for all its hypotheses on records up to a norm; infinite if none."""
        return math.inf

    def steepest(self, norm: float, dimension: int) -> float:
        """Return a bound on the norm of a gradient of that loss; infinite if none is known."""
        return math.inf

    @property
    def clipped(self) -> float:
        """The norm to which it clips gradients; infinite if it does not clip."""
        return math.inf

    @property
    def shown_features(self) -> int | None:
        """The number of features, from the first on, that are public; None for all.

        0 unless it protects labels only; then those before the columns of the classes, if there are any.
        """
        if self.protected != "labels":
            return 0
        first, count = self.class_columns
        return first if count else None

    def planned_people(self, task: PlanTask) -> PlannedValue:
        """Return n: the greater of what the statistics and what the budget require."""
        budget = task.budget
        if budget is None:
            return task.any_people(PAPER + "Lemma 3.2", "n of the statistics (no privacy)")
        people = self.paper_people(task, *budget) if task.paper else None
        if people is not None:
            return people
        least = partial(smallest_n, *budget, lambda size: [*(task.calls(size).events(self) or ()), *task.beside])
        text = "max(n of the statistics, least n whose rounds cost at most epsilon)"
        return follow(task.given_n, lambda: max(task.sample, least()), text, CORRECTIONS + "curator")

    def paper_people(self, task: PlanTask, epsilon: float, delta: float, kappa: float) -> PlannedValue | None:
        """Return n by the paper's own formula, for the learner's budget; None if it has none."""
        return None

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        """Return the settings that are numbers of the plan, by name; ``settings`` has them as in the scenario."""
        return {}

    def chosen_value(self, settings: OpenSettings, name: str, formula: str, source: str) -> PlannedValue:
        """Return a setting that a plan chooses; it has no rule if the scenario gives its value."""
        value = getattr(self, name)
        return PlannedValue(
            value=value, rule=value if settings.value(name) == PLAN else None, formula=formula, source=source
        )


SETTINGS: TypeRegistry[LearnerSettings] = TypeRegistry("learner", __name__, "name")
"""The settled settings of every learner; with their event and their plan, they are its whole public part."""


def open_form(name: str) -> type[OpenSettings]:
    """Return the open class from which a learner's settled settings derive, or :class:`OpenSettings` itself."""
    kinds = (kind for kind in SETTINGS[name].__mro__ if issubclass(kind, OpenSettings))
    return next(kind for kind in kinds if not issubclass(kind, LearnerSettings))


def parse_settings(written: Any) -> OpenSettings:
    """Return a learner's settings, settled unless a value is at ``plan``; BadScenario if they are invalid."""
    open_keys = [key for key, value in written.items() if left_open(value)] if isinstance(written, dict) else []
    name = written.get("name") if open_keys else None
    if not isinstance(name, str) or name not in SETTINGS.names():
        return _read(SETTINGS.parse, written)
    kind = open_form(name)
    fields = kind.model_fields
    refused = [key for key in open_keys if key not in fields or not may_be_open(fields[key].annotation)]
    if refused:
        raise BadScenario(f"curator.learner.{refused[0]} cannot be left at plan for the learner {name!r}")
    return _read(kind.parse, written)


def _read(parse: Callable[[Any], V], written: Any) -> V:
    try:
        settings = parse(written)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
    settings._written = written
    return settings


def _accepted(value: Any) -> OpenSettings:
    return value if isinstance(value, OpenSettings) else parse_settings(value)


_AS_WRITTEN = PlainSerializer(lambda settings: settings.as_written, return_type=dict[str, Any])
AnyOpenLearner = Annotated[OpenSettings, BeforeValidator(_accepted), _AS_WRITTEN]
"""A field with any learner's settings, settled or not; its JSON form is as written."""
AnyLearner = Annotated[LearnerSettings, BeforeValidator(_accepted), _AS_WRITTEN]  # the same for settled settings


@dataclass(frozen=True)
class Calls:
    """A run's calls of its learner, one per round; see :class:`PlanTask`. ``n`` is the size of the curator's sample."""

    n: int
    kappa: float | None
    eta: float
    rounds: int
    before: int = 0

    @property
    def schedule(self) -> Sequence[float]:
        """One sampling bound s_t >= TV(mu, mu') per round."""
        if self.kappa is None:
            return (1.0,) * self.rounds
        return sampling_schedule(self.n, self.kappa, self.eta, self.rounds, self.before)

    def events(self, learner: LearnerSettings) -> Events | None:
        """Return the events of all calls; None if the learner guarantees nothing."""
        rounds: Counter[Event] = Counter()
        for tv_bound, times in Counter(self.schedule).items():
            for part in parts_of(learner.event(tv_bound)):
                rounds[part] += times
        return None if any(isinstance(event, NonPrivate) for event in rounds) else list(rounds.items())

    def spent(self, learner: LearnerSettings, delta: float) -> float:
        """Return the epsilon that all calls cost at ``delta``; infinite if the learner guarantees nothing."""
        events = self.events(learner)
        return math.inf if events is None else cost(events, delta)

    def affordable(
        self, learner: LearnerSettings, epsilon: float, delta: float, *, beside: Events = (), quick: bool = False
    ) -> bool:
        """Return whether the budget covers all calls and the events ``beside`` them; faster than :meth:`spent`.

        With ``quick``, only quick accountants are used.
        """
        events = self.events(learner)
        return events is not None and fits([*events, *beside], epsilon, delta, quick=quick)
