"""The result of a run as one JSON document (the design's section 7), from the protocol's outcome."""

from __future__ import annotations

from typing import Any

from common.messages import Terms, guarantee
from common.scenario import Scenario
from referee.protocols.base import Outcome


def result_document(
    scenario: Scenario,
    outcome: Outcome | None,
    *,
    status: str,
    reason: str,
    terms: Terms | None,
    agents: dict[str, int],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the result document; without an outcome, answer and estimate are null."""
    return {
        "scenario": scenario.name,
        "status": status,
        "reason": reason,
        "iterations": outcome.iterations if outcome else 0,
        "answer": outcome.answer.wire() if outcome else None,
        "estimate": outcome.estimate.wire() if outcome else None,
        "agents": agents,
        "privacy": {
            "curator": {"epsilon": terms.epsilon if terms else None, "delta": terms.delta if terms else None},
            "agent": guarantee(scenario.agents.mechanism.guarantee),
        },
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }
