"""What planning asks about a learner, and the answers for one of which nothing can be planned."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from common.core.errors import BadScenario
from common.core.registry import Registry
from common.core.values import PLAN
from common.learners.base import LearnerSettings, OpenSettings
from common.privacy.accountants.base import Plan as Events
from common.privacy.budget import cost, fits
from common.privacy.calibration import sampling_schedule, smallest_n
from common.privacy.events import Event, NonPrivate
from common.privacy.rounding import down
from common.scenario.scenario import Scenario
from common.statistics import formulas
from common.statistics.formulas import CORRECTIONS, PAPER, PlannedValue, fixed, follow

Asked = TypeVar("Asked", bound=OpenSettings)
Settled = TypeVar("Settled", bound=LearnerSettings)


@dataclass(frozen=True)
class Task:
    """One planning task: a scenario, whose formulas count, and what was settled before its learner.

    Attributes
    ----------
    scenario
        As asked: what is at ``plan`` there is open.
    paper
        Whether to compute as the paper does.
    rounds
        T.
    kappa, eta
        Density (None without projection) and step of multiplicative weights.
    sample
        n that the statistics ask for.
    """

    scenario: Scenario
    paper: bool
    rounds: int
    kappa: float | None
    eta: float
    sample: int

    @property
    def before(self) -> int:
        """Number of reweighs before the first round."""
        return self.scenario.reweighs_before

    @property
    def beside(self) -> Events:
        """What is released beside the learner's calls, out of the same budget."""
        return [(event, 1) for event in self.scenario.margins(self.rounds)]

    @property
    def budget(self) -> tuple[float, float, float] | None:
        """The curator's epsilon that is for its learner, delta, and kappa; None where one of them is missing."""
        curator = self.scenario.curator
        if curator.epsilon is None or curator.delta is None or self.kappa is None:
            return None
        others = self.scenario.margins_epsilon
        return down(curator.epsilon - others) if others else curator.epsilon, curator.delta, self.kappa


class LearnerPlanning(ABC, Generic[Asked, Settled]):
    """A learner as planning sees it: how what its settings leave open is chosen.

    A learner becomes plannable by a registered subclass in a file of its own.

    Parameters
    ----------
    asked
        Its settings as the scenario has them: what is at ``plan`` there is open.
    """

    least: ClassVar[tuple[str, ...]] = ()
    """Settings with a least number, which :meth:`planned_values` tells: fewer break the accuracy."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """Return T where the learner itself decides it; None where multiplicative weights do."""
        return None

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue | None:
        """Return the n that the statistics ask for, where the learner itself decides it; None for Lemma 3.2."""
        return None

    def settle(self, task: Task) -> tuple[Settled, PlannedValue]:
        """Return the settled settings, and n.

        Raises
        ------
        BadScenario, BadInput, BudgetExceeded
            If there is no such number.
        """
        n = task.scenario.curator.n
        learner = self.complete(task, None if n == PLAN else n)
        return learner, self.people(task, learner)

    @abstractmethod
    def complete(self, task: Task, n: int | None) -> Settled:
        """Fill in what the settings leave open, for n people (None: n follows later)."""

    def people(self, task: Task, learner: Settled) -> PlannedValue:
        """Return n: what the statistics ask for or, if more, what the budget does."""
        given, budget = task.scenario.curator.n, task.budget
        if budget is None:
            return follow(given, lambda: task.sample, "n of the statistics (no privacy)", PAPER + "Lemma 3.2")
        if task.paper:
            found = self.paper_people(task, learner)
            if found is not None:
                return found
        epsilon, delta, kappa = budget

        def events(size: int) -> Events:
            return events_of(learner, sampling_schedule(size, kappa, task.eta, task.rounds, task.before)) or []

        return follow(
            given,
            lambda: max(task.sample, smallest_n(epsilon, delta, kappa, events)),
            "max(n of the statistics, least n whose rounds cost at most epsilon)",
            CORRECTIONS + "curator",
        )

    def paper_people(self, task: Task, learner: Settled) -> PlannedValue | None:
        """Return n by the paper's own formula, if it has one for a learner like this."""
        return None

    def planned_values(self, task: Task, learner: Settled) -> dict[str, PlannedValue]:
        """Return the settings that are numbers of the plan, by name."""
        return {}


class Unplanned(LearnerPlanning[OpenSettings, LearnerSettings]):
    """A learner of which nothing can be planned."""

    def complete(self, task: Task, n: int | None) -> LearnerSettings:
        """Return the settings, of which nothing is open."""
        if not isinstance(self.asked, LearnerSettings):
            raise BadScenario(f"nothing of the learner {self.asked.name!r} can be left at plan")
        return self.asked


PLANNINGS: Registry[type[LearnerPlanning[Any, Any]]] = Registry("learner's planning", __name__, optional=True)


def planning_of(learner: OpenSettings) -> LearnerPlanning[Any, Any]:
    """Return what planning knows of the learner with these settings; of one without a file nothing can be planned."""
    return (PLANNINGS[learner.name] if learner.name in PLANNINGS.names() else Unplanned)(learner)


def events_of(learner: LearnerSettings, schedule: Sequence[float]) -> Events | None:
    """Return the events of one call a round; None if the learner guarantees nothing.

    Parameters
    ----------
    schedule
        One sampling bound s_t >= TV(mu, mu') a round.
    """
    rounds: Counter[Event] = Counter()
    for tv_bound, times in Counter(schedule).items():
        rounds[learner.event(tv_bound)] += times
    return None if any(isinstance(event, NonPrivate) for event in rounds) else list(rounds.items())


def spent(
    learner: LearnerSettings, delta: float, n: int, kappa: float | None, eta: float, rounds: int, before: int = 0
) -> float:
    """Return the epsilon that all rounds cost at ``delta``, infinite if the learner guarantees nothing."""
    events = _events(learner, n, kappa, eta, rounds, before)
    return math.inf if events is None else cost(events, delta)


def affordable(
    learner: LearnerSettings,
    epsilon: float,
    delta: float,
    n: int,
    kappa: float | None,
    eta: float,
    rounds: int,
    before: int = 0,
    *,
    beside: Events = (),
    quick: bool = False,
) -> bool:
    """Tell whether the budget holds all rounds; quicker than :func:`spent`, most of all with quick accountants alone.

    Parameters
    ----------
    beside
        What else is released out of the same budget.
    quick
        Ask only accountants that answer at once.
    """
    events = _events(learner, n, kappa, eta, rounds, before)
    return events is not None and fits([*events, *beside], epsilon, delta, quick=quick)


def _events(
    learner: LearnerSettings, n: int, kappa: float | None, eta: float, rounds: int, before: int
) -> Events | None:
    return events_of(learner, (1.0,) * rounds if kappa is None else sampling_schedule(n, kappa, eta, rounds, before))


def lemma(scenario: Scenario, paper: bool) -> PlannedValue:
    """Return the n of Lemma 3.2: the weights behave, and no hypothesis is understated by more than alpha/4."""
    alpha, beta, x = scenario.alpha, scenario.beta, scenario.divergence.chi_squared
    dimension, hypotheses = scenario.vc_dimension, scenario.hypotheses
    if paper:
        size = dimension or (math.log2(hypotheses) if hypotheses and hypotheses > 1 else 1.0)
        text = "max(150 X ln(4/beta), 800 X ln(1/alpha) (d ln(400 d/alpha^3) + ln(8/beta)))/alpha^2"
        return fixed(formulas.paper_sample(alpha, beta, x, size), text, PAPER + "Lemma 3.2")
    value, text = formulas.sample_weights(alpha, beta, x), "150 X ln(6/beta)/alpha^2"
    uniform = [
        (formulas.sample_finite(alpha, beta, x, hypotheses), "32 X ln(2|H|/beta)/alpha^2") if hypotheses else None,
        (formulas.sample_uniform(alpha, beta, x, dimension), "(4/alpha'^2)(p ln(2en/p) + ln(8/beta))")
        if dimension
        else None,
    ]
    known = [entry for entry in uniform if entry is not None]
    if known:
        least, name = min(known)
        value, text = max(value, least), f"max({text}, {name})"
    else:
        text += " only: neither vc_dimension nor hypotheses is given"
    return fixed(value, text, CORRECTIONS + "sample size")
