"""Resolve a scenario and check what only the parties know: its learner and its protocol."""

from __future__ import annotations

from common.core.errors import BadInput, BadScenario
from common.planning.plan import resolve
from common.planning.planned_values import left_open
from common.planning.problems.base import shortfalls
from common.scenario.scenario import Scenario
from curator.learners.base import LEARNERS, parse_learner
from referee.protocols.base import PROTOCOLS


def checked(asked: Scenario) -> Scenario:
    """Return the resolved scenario.

    Raises
    ------
    BadScenario
        If no learner or protocol has that name, a setting of the learner is wrong, or planning fails.
    """
    learner = asked.curator.learner
    try:
        if learner is not None:
            LEARNERS[str(learner.get("name"))]
        wanted = PROTOCOLS[asked.protocol].problem
    except BadInput as error:
        raise BadScenario(error.detail) from None
    found = asked.problem.name if asked.problem else None
    if found != wanted:
        raise BadScenario(f"protocol {asked.protocol} is about problem {wanted or 'none'}, found {found or 'none'}")
    if learner is not None and not any(left_open(setting) for setting in learner.values()):
        parse_learner(learner)
    if asked.problem is not None:
        short = shortfalls(asked, asked.problem)
        if short:
            raise BadScenario(
                f"{'; '.join(short)}: the guarantee does not hold; take the plan's number or a larger beta"
            )
    chosen = resolve(asked)
    if chosen.curator.learner is not None:
        parse_learner(chosen.curator.learner)
    return chosen
