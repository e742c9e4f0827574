"""Too few answers are never plain success: what a run that is done must have heard, judged live and in the audit."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from common.planning.plan import plan
from common.planning.problems.base import planned_values
from common.scenario.resolved import ResolvedScenario
from common.vocabulary.demands.base import demands_of
from common.vocabulary.steps import Answers
from referee.protocols.base import Outcome, Protocol, Script, Step

_SIGMAS = 5.0
"""Standard deviations by which fewer may answer than a scenario's dropout leaves on average."""


def begun(protocol: Protocol, scenario: ResolvedScenario, public: int) -> Script:
    """Start a protocol; ``done`` with fewer answers than :func:`needed` becomes ``exhausted``, with both numbers.

    A search that ends early asks fewer than were planned: then those count whom it asked, less the scenario's dropout.

    Parameters
    ----------
    public
        As of :meth:`~referee.protocols.base.Protocol.script`.
    """
    script = protocol.script(scenario, public)
    outcome, asked, answered = yield from _counted(script)
    least = min(needed(scenario), _expected(asked, scenario)) if outcome.status == "done" else 0
    if answered >= least:
        return outcome
    reason = (
        f"{outcome.reason}; but {answered:,} of {asked:,} agents answered, and the guarantee takes {least:,}: "
        "enrol more agents, or give them a longer agents.deadline"
    )
    return replace(outcome, status="exhausted", reason=reason)


def _counted(script: Script) -> Generator[Step, Any, tuple[Outcome, int, int]]:
    asked, answered, reply = 0, 0, None
    while True:
        try:
            step = script.send(reply)
        except StopIteration as end:
            return end.value, asked, answered
        reply = yield step
        for heard in reply if isinstance(reply, list) else [reply]:
            if isinstance(heard, Answers):
                asked += heard.asked
                answered += len(heard.values)


def needed(scenario: ResolvedScenario) -> int:
    """Return how many answers a run needs to be done.

    About a problem: as many as its plan would ask if everybody answered; fewer are refused beforehand. Where one test
    follows one learner: the plan's, or, where the scenario asks fewer than that, those that its dropout leaves. A
    sequential test decides on what it has heard, so it needs none beyond.
    """
    if scenario.alone == "curator":
        return 0
    section = scenario.agents
    if scenario.problem is not None:
        everybody = scenario.model_copy(update={"agents": section.model_copy(update={"dropout": 0.0})})
        rule = planned_values(everybody, scenario.problem, scenario.bounds == "paper")["agents"].rule
        return math.ceil(rule or 0.0)
    if demands_of(scenario.protocol).reweighs:
        return 0
    return min(int(plan(scenario).answers.value), _expected(section.count, scenario))


def _expected(asked: int, scenario: ResolvedScenario) -> int:
    """Return how many of those who were asked answer at least, but for a chance below 1e-6."""
    dropout = scenario.agents.dropout
    return math.floor(asked * (1.0 - dropout) - _SIGMAS * math.sqrt(asked * dropout))
