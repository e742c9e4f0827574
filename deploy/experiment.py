"""Complete a run's result with what only an experiment knows: the truth, the other ways to an answer, the memory."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from common.hypotheses.base import parse_hypothesis
from common.scenario import Scenario
from deploy.base import Watch
from deploy.truth import judge_crowd, loss


def complete(result: dict[str, Any], asked: Scenario, seed: int | None, folder: Path, watch: Watch) -> dict[str, Any]:
    """Return the result with truth, peak memory and the run folder's path.

    Parameters
    ----------
    asked
        The scenario as it was asked for, before planning.
    """
    truth: dict[str, Any] | None = None
    if result["answer"] is not None:
        judge = judge_crowd(asked, seed or 0)
        truth = {"loss_on_target": loss(parse_hypothesis(result["answer"]), judge), "people": len(judge)}
        if asked.baselines:
            # Only here: scikit-learn takes most of a second to import, and most runs do without it.
            from deploy.baselines import run_baselines

            truth["baselines"] = run_baselines(asked, result, seed, watch)
    used = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {**result, "truth": truth, "peak_memory_bytes": 1024 * used, "run": str(folder)}
