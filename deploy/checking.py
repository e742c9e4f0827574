"""Resolve a scenario and check what only the parties know: its learner and its protocol."""

from __future__ import annotations

from common.errors import BadInput, BadScenario
from common.planning.plan import resolve
from common.scenario import Scenario
from curator.learners.base import LEARNERS, parse_learner
from referee.protocols.base import PROTOCOLS


def checked(asked: Scenario) -> Scenario:
    """Return the resolved scenario.

    Raises
    ------
    BadScenario
        If no learner or protocol has that name, a setting of the learner is wrong, or planning fails.
    """
    try:
        LEARNERS[str(asked.curator.learner.get("name"))]
        PROTOCOLS[asked.protocol]
    except BadInput as error:
        raise BadScenario(error.detail) from None
    if "plan" not in asked.curator.learner.values():
        parse_learner(asked.curator.learner)
    chosen = resolve(asked)
    parse_learner(chosen.curator.learner)
    return chosen
