"""What is shown of a run that has not ended: from what its referee says of it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.privacy.guarantee import Guarantee
from common.scenario.resolved import ResolvedScenario
from referee.protocols.base import halts
from referee.view.face.building import run_view
from referee.view.face.values import RunView, Verdict


def view_so_far(
    scenario: ResolvedScenario,
    rounds: Sequence[Mapping[str, float]],
    agents: Mapping[str, Any],
    promises: Mapping[str, Guarantee],
    status: str,
) -> RunView:
    """Return what is shown of a run that goes on.

    Parameters
    ----------
    rounds
        The numbers of each round so far (:func:`referee.runs.results.rounds_of`).
    agents
        How many are enrolled and were asked, answered and declined so far.
    promises
        By whom they are made (:func:`referee.runs.results.promises`).

    Raises
    ------
    BadData
        If the numbers are none of such a run.
    """
    document = {
        "status": status,
        "reason": "",
        "iterations": len(rounds),
        "answer": None,
        "estimate": None,
        "agents": dict(agents),
        "lost": {"silent": 0, "declined": {}},
        "privacy": {**{who: promised.wire() for who, promised in promises.items()}, "all_runs": None},
        "seconds": {},
    }
    found = run_view(scenario, document, rounds)
    return replace(found, verdict=_verdict(scenario, found), facts=())


def _verdict(scenario: ResolvedScenario, view: RunView) -> Verdict:
    if not view.rounds:
        return Verdict("No round has ended yet", f"the run is {view.status}", "open")
    last = view.rounds[-1]
    most = f" of at most {scenario.curator.rounds:,}" if halts(scenario) else ""
    detail = f"its loss on the population is {last.words}" + (f": {last.against}" if last.against else "")
    return Verdict(f"Round {last.number:,}{most} has ended", detail, "open")
