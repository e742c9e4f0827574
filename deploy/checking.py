"""Resolve a scenario and check what only the parties know: its learner and its protocol."""

from __future__ import annotations

from common.core.errors import BadInput, BadScenario
from common.planning.plan import resolve
from common.planning.problems.base import shortfalls
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario
from common.vocabulary.learners.base import LearnerSettings
from curator.learners.base import parse_learner
from referee.protocols.base import PROTOCOLS


def checked(asked: Scenario) -> ResolvedScenario:
    """Return the resolved scenario.

    Raises
    ------
    BadScenario
        If no protocol has that name, its problem is another, the learner refuses its settings, or planning fails.
    """
    try:
        wanted = PROTOCOLS[asked.protocol].problem
    except BadInput as error:
        raise BadScenario(error.detail) from None
    found = asked.problem.name if asked.problem else None
    if found != wanted:
        raise BadScenario(f"protocol {asked.protocol} is about problem {wanted or 'none'}, found {found or 'none'}")
    if isinstance(asked.curator.learner, LearnerSettings):
        parse_learner(asked.curator.learner)
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
