"""Resolved scenarios: the same numbers, none of which is open."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from common.core.errors import BadScenario
from common.learners.base import AnyLearner, LearnerSettings, parse_settings
from common.privacy.events import Release
from common.privacy.rounding import down
from common.scenario.scenario import Scenario, parse
from common.scenario.sections import AgentCount, AgentsSection, CuratorSection, Density, Rounds, SampleSize, Step


class ResolvedCurator(CuratorSection):
    """A curator's policy of which every number is known."""

    n: SampleSize
    kappa: Density | None
    eta: Step
    rounds: Rounds
    learner: AnyLearner | None = None

    @property
    def settings(self) -> LearnerSettings:
        return cast(LearnerSettings, super().settings)

    @property
    def share(self) -> float:
        """What one of ``rounds`` pure releases may cost: epsilon / rounds, rounded down; without epsilon, refused."""
        if self.epsilon is None:
            raise BadScenario("curator.epsilon: this protocol needs a private curator")
        return self.epsilon if self.rounds == 1 else down(self.epsilon / self.rounds)


class ResolvedAgents(AgentsSection):
    """The agents' side, their number known."""

    count: AgentCount


class ResolvedScenario(Scenario):
    """A scenario that can be run: :func:`common.scenario.plan.resolve` makes one, in which no number is ``plan``."""

    curator: ResolvedCurator
    agents: ResolvedAgents

    @property
    def planned_margins(self) -> tuple[Release, ...]:
        return self.margins(self.curator.rounds)


def settled(scenario: Scenario) -> ResolvedScenario:
    """Return a scenario of which nothing is open as a resolved one; an open value is a BadScenario."""
    if isinstance(scenario, ResolvedScenario):
        return scenario
    if scenario.anything_open:
        raise BadScenario("a run needs a resolved scenario: a value is still at 'plan'")
    curator, agents = ResolvedCurator(**_given(scenario.curator)), ResolvedAgents(**_given(scenario.agents))
    return ResolvedScenario.model_validate(_given(scenario) | {"curator": curator, "agents": agents})


S = TypeVar("S", ResolvedCurator, ResolvedAgents)


def filled(
    scenario: Scenario,
    *,
    n: int,
    kappa: float | None,
    eta: float,
    rounds: int,
    learner: dict[str, Any] | None,
    agents: int,
) -> ResolvedScenario:
    """Return a scenario with these numbers, ``learner`` in JSON form, in the place of its own.

    Planned numbers may be larger than those that a run admits: :func:`parse_resolved` refuses them, a plan shows them.
    """
    settings = None if learner is None else parse_settings(learner)
    policy = {"n": n, "kappa": kappa, "eta": eta, "rounds": rounds, "learner": settings}
    return ResolvedScenario.model_validate(
        _given(scenario)
        | {"curator": _taken(ResolvedCurator, scenario.curator, policy)}
        | {"agents": _taken(ResolvedAgents, scenario.agents, {"count": agents})}
    )


def _taken(kind: type[S], section: CuratorSection | AgentsSection, numbers: dict[str, Any]) -> S:
    return kind.model_construct(section.model_fields_set | numbers.keys(), **(dict(section) | numbers))


def _given(value: Scenario | CuratorSection | AgentsSection) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.model_fields_set}


def parse_resolved(tree: Any) -> ResolvedScenario:
    """Validate a resolved scenario from its JSON tree; errors are those of :func:`parse` and :func:`settled`."""
    return settled(parse(tree))
