"""The result of a run as one JSON document (the design's section 7), from the protocol's outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from common.core.values import Value
from common.net.messages import Terms
from common.privacy.guarantee import NOTHING, PrivacyGuarantee, together
from common.scenario.scenario import ResolvedScenario, Scenario
from referee.protocols.base import Nonresponse, Outcome

TEST = "tested_"
"""Prefix of those numbers of a note that give a test's state (:func:`referee.protocols.asking.reached_numbers`)."""


def result_document(
    scenario: ResolvedScenario,
    outcome: Outcome | None,
    *,
    rounds: list[dict[str, float]],
    status: str,
    reason: str,
    terms: Terms | None,
    agents: dict[str, int],
    lost: dict[str, Any],
    enrolment: dict[str, int],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the result document; without an outcome, answer and estimate are null.

    ``rounds`` are what each round found (:func:`rounds_of`). ``lost`` counts agents that were asked and did not answer:
    who stayed silent, and who declined, by reason. ``enrolment`` counts participants, beside the referee's caps.
    Optional keys: ``tasks`` if the protocol learned several things; ``candidates`` and ``gap`` if it judged several;
    ``silent`` if some agents who were asked did not answer: what they could change; ``bound`` if the curator was to
    bound the loss from an adaptation's samples; ``calibrated`` if agents recalibrated a model's score: a hypothesis
    whose margin is the logarithm of the odds of +1 on T; ``quality`` if they were surveyed about that; ``costs`` if
    losses are weighted by them; ``pairs`` if the answer was compared with rivals; ``constant`` if with a constant.
    """
    several: dict[str, Any] = {"tasks": [_ended(task) for task in outcome.tasks]} if outcome and outcome.tasks else {}
    if outcome and outcome.judged:
        candidates = [
            {
                "name": candidate.name,
                "hypothesis": candidate.hypothesis.wire(),
                "estimate": candidate.estimate.wire(),
                "asked": candidate.asked,
            }
            for candidate in outcome.judged
        ]
        several |= {"candidates": candidates, "gap": outcome.gap}
    for name in ("comparison", "constant", "bound", "calibrated", "quality"):
        if (part := getattr(outcome, name, None)) is not None:
            several[name] = part.wire()
    if outcome and outcome.pairs:
        several["pairs"] = [pair.wire() for pair in outcome.pairs]
    if scenario.agents.costs is not None:
        several["costs"] = scenario.agents.costs.wire()
    if outcome and outcome.silent:
        several["silent"] = _silent(outcome.silent)
    return {
        "scenario": scenario.name,
        **_ended(outcome),
        "status": status,
        "reason": reason,
        "rounds": rounds,
        **several,
        "agents": agents,
        "lost": lost,
        "enrolment": enrolment,
        "privacy": {
            **{who: promised.wire() for who, promised in promises(scenario, terms).items()},
            "all_runs": terms.all_runs.wire() if terms and terms.all_runs else None,
        },
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def rounds_of(notes: Iterable[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the numbers of those notes that are about a round's estimate: round, rounds, asked, and the interval.

    The state of the round's test is left out: a result needs only its verdict. The numbers follow from the answers: an
    audit recomputes them by its replay.
    """
    return [
        {name: float(value) for name, value in numbers.items() if not name.startswith(TEST)}
        for numbers in notes
        if "round" in numbers and "value" in numbers
    ]


def promises(scenario: Scenario, terms: Terms | None) -> dict[str, PrivacyGuarantee]:
    """Return what a run promises the curator's people, each agent, and a row of a file that both sides read.

    Without the curator's terms the curator released nothing.
    """
    curator, agent = NOTHING if terms is None else terms.guarantee, scenario.agents.guarantee
    both = {"together": together(curator, agent)} if scenario.shares_a_file and terms is not None else {}
    return {"curator": curator, "agent": agent, **both}


def _wire(value: Value | None) -> Any:
    return None if value is None else value.wire()


def _ended(outcome: Outcome | None) -> dict[str, Any]:
    return {
        "status": outcome and outcome.status,
        "reason": outcome and outcome.reason,
        "iterations": outcome.iterations if outcome else 0,
        "answer": outcome and outcome.answer.wire(),
        "estimate": outcome and _wire(outcome.estimate),
    }


def _silent(silent: Nonresponse) -> dict[str, Any]:
    return {
        "missing": silent.silence.missing,
        "most": silent.silence.most,
        "estimate": _wire(silent.estimate),
        "gap": silent.gap,
        "left_out": _wire(silent.left_out),
        "matters": silent.matters,
    }
