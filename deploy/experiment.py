"""What only an experiment knows: the truth about the answer, and what other ways would have led to."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np

from common.hypotheses.base import Hypothesis, parse_hypothesis
from common.people import Crowd, open_crowd
from common.randomness import subseed
from common.scenario import Scenario, data_folder
from deploy.base import Watch

TRUTH_PEOPLE = 1 << 21
"""Fresh simulated people on whom a hypothesis is evaluated: standard error below 0.00035."""
_BLOCK = 1 << 18


def complete(
    result: dict[str, Any], scenario: Scenario, seed: int | None, folder: Path, watch: Watch
) -> dict[str, Any]:
    """Add truth, peak memory and the run folder's path to a result document."""
    truth = None
    if result["answer"] is not None:
        judge = target_crowd(scenario, seed)
        truth = {"loss_on_target": loss(parse_hypothesis(result["answer"]), judge), "people": len(judge)}
    used = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {**result, "truth": truth, "peak_memory_bytes": 1024 * used, "run": str(folder)}


def target_crowd(scenario: Scenario, seed: int | None) -> Crowd:
    """Return people of T to judge by: fresh ones that no party has seen if simulated, else the whole table."""
    simulated = scenario.target.distribution is not None
    return open_crowd(
        scenario.target,
        data_folder(scenario),
        subseed(seed or 0, "truth"),
        TRUTH_PEOPLE if simulated else None,
    )


def loss(hypothesis: Hypothesis, crowd: Crowd) -> float:
    """Return the 0/1 loss of a hypothesis on a crowd."""
    wrong = 0
    for begin in range(0, len(crowd), _BLOCK):
        people = np.arange(begin, min(begin + _BLOCK, len(crowd)))
        wrong += int(hypothesis.mistakes(crowd.records(people)).sum(dtype=np.int64))
    return wrong / len(crowd)
