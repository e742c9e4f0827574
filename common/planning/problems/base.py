"""What planning asks about a problem, and how a scenario's open numbers follow from the answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from common.core.errors import BadInput, BadScenario
from common.core.registry import Registry
from common.core.values import PLAN
from common.planning.planned_values import PlannedValue
from common.scenario.problems.base import Problem
from common.scenario.resolved import ResolvedScenario, filled, settled
from common.scenario.scenario import Scenario

P = TypeVar("P", bound=Problem)


class ProblemPlanning(ABC, Generic[P]):
    """A problem as planning sees it."""

    releases: ClassVar[dict[str | None, int]] = {}
    """Among how many releases the curator's epsilon is divided, by the side that is alone; one by default."""

    @abstractmethod
    def plan(self, problem: P, scenario: Scenario, paper: bool) -> dict[str, PlannedValue]:
        """Return every number of a run: ``n``, ``agents``, and settings of the curator's learner, by name.

        Parameters
        ----------
        paper
            Whether to compute as the paper does.

        Raises
        ------
        BadScenario, BadInput
            If there is no such number: says what would have to change.
        """


PROBLEM_PLANNINGS: Registry[type[ProblemPlanning[Any]]] = Registry("problem's planning", __name__)


def planned_values(scenario: Scenario, problem: Problem, paper: bool) -> dict[str, PlannedValue]:
    """Return the problem's plan.

    Raises
    ------
    BadScenario
        If there is none.
    """
    try:
        return PROBLEM_PLANNINGS[problem.name]().plan(problem, scenario, paper)
    except BadInput as error:
        raise error if isinstance(error, BadScenario) else BadScenario(error.detail) from None


def resolve_problem(scenario: Scenario, problem: Problem) -> ResolvedScenario:
    """Return the scenario with every ``plan`` replaced by its number.

    A side that is left out is one agent, or the planned sample: it stands by.

    Raises
    ------
    BadScenario
        As for :func:`planned_values`; if a setting of the learner cannot be planned.
    """
    if not scenario.anything_open:
        return settled(scenario)
    curator = scenario.curator
    learner = None if curator.learner is None else curator.learner.as_written
    wanted = [key for key, value in (learner or {}).items() if value == PLAN]
    found = planned_values(scenario, problem, scenario.bounds == "paper")
    for key in wanted:
        if key not in found:
            raise BadScenario(f"curator.learner.{key} cannot be left at plan for the problem {problem.name}")
    releases = PROBLEM_PLANNINGS[problem.name].releases.get(scenario.alone, 1)
    return filled(
        scenario,
        n=int(found["n"].value),
        kappa=None if curator.kappa == PLAN else curator.kappa,
        eta=1.0 if curator.eta == PLAN else curator.eta,
        rounds=releases if curator.rounds == PLAN else curator.rounds,
        learner=None if learner is None else learner | {key: _number(found[key]) for key in wanted},
        agents=1 if scenario.alone == "curator" else int(found["agents"].value),
    )


def _number(figure: PlannedValue) -> float:
    value = figure.value
    return int(value) if value.is_integer() else value


def shortfalls(scenario: Scenario, problem: Problem) -> list[str]:
    """Say which of the scenario's own numbers are below what the guarantee takes; a side left out may be any size."""
    absent = {"curator": "agents", "agents": "n"}.get(scenario.alone or "")
    return [
        f"accuracy: {name} = {figure.value:g} is below the {figure.rule:g} of {figure.formula.removeprefix('given; ')}"
        for name, figure in planned_values(scenario, problem, scenario.bounds == "paper").items()
        if name != absent and figure.rule is not None and figure.value < figure.rule
    ]
