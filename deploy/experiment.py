"""Complete a run's result with what only an experiment knows: the truth, the other ways to an answer, the memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

from common.lifetime.charging import USERS_OWN, Charging
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.scenario.scenario import Scenario
from deploy.baselines import Attempts, can_judge, evaluation_source, judge, loss, run_baselines, squared_error
from deploy.deployment import OnProgress
from referee.protocols.base import halts

_OPTIMUM = "what was fitted to people of T without privacy"
NOTICEABLE = 0.005  # A difference in loss below this is called none


def reading(
    asked: Scenario, result: dict[str, Any], hybrid: float, baselines: dict[str, dict[str, float | str]]
) -> str:
    """Say in a sentence how the run's loss compares with those of its baselines; nothing about why.

    Args:
        hybrid: The true loss of the run's answer.
    """
    losses = {name: float(found["loss_on_target"]) for name, found in baselines.items()}
    alone, best = losses.get("curator-only"), losses.get("optimum")
    if alone is None:
        return ""
    if result["iterations"] == 1 and "candidates" not in result:
        passed = halts(asked) and result["status"] == "done"
        what = "the first hypothesis passed the agents' test" if passed else "there was one round"
        return f"{what}: nothing was reweighed"
    gain = alone - hybrid
    if gain > NOTICEABLE:
        left = "" if best is None else f", {abs(hybrid - best):.3f} {'above' if hybrid >= best else 'below'} {_OPTIMUM}"
        return f"the loss of the answer is {gain:.3f} below that of the curator alone{left}"
    if best is not None and alone - best <= 2 * NOTICEABLE:
        return f"no gain ({gain:+.3f}): the curator alone is {alone - best:+.3f} from {_OPTIMUM}, little is to repair"
    return f"no gain here ({gain:+.3f})"


def complete(
    result: dict[str, Any],
    asked: Scenario,
    seed: int | None,
    folder: Path,
    on_progress: OnProgress,
    charging: Charging = USERS_OWN,
) -> dict[str, Any]:
    """Return the result with truth, peak memory and the run folder's path.

    What of the truth and of the baselines cannot be found out is left out, and its reason stands in the truth's
    ``left_out``: a run that has its answer gives it, whatever becomes of what it is compared with.

    Args:
        asked: The scenario as it was asked for, before planning. Where its people are not at hand, truth is null.
        folder: The run's folder, in which baselines work.
        charging: Where baselines are charged to the people whose records they use.
    """
    truth: dict[str, Any] | None = None
    if result["answer"] is not None:
        if asked.problem is not None and asked.target.distribution is not None:
            truth = _of_a_problem(result, asked, on_progress)
        elif asked.problem is None and can_judge(asked):
            truth = _of_a_hypothesis(result, asked, seed, folder, on_progress, charging)
    used = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    unit = 1 if sys.platform == "darwin" else 1024
    return {**result, "truth": truth, "peak_memory_bytes": unit * used, "run": str(folder)}


def _of_a_problem(result: dict[str, Any], asked: Scenario, on_progress: OnProgress) -> dict[str, Any]:
    attempts, problem, people = Attempts(on_progress), asked.problem, asked.target.distribution
    if problem is None or people is None:
        raise AssertionError("only a problem about simulated people has a truth of its own")
    found = attempts.attempt("correct", "the truth", lambda: problem.judge(result["answer"], asked.alpha, people))
    return {**(found or {}), **_left_out(attempts)}


def _of_a_hypothesis(
    result: dict[str, Any],
    asked: Scenario,
    seed: int | None,
    folder: Path,
    on_progress: OnProgress,
    charging: Charging,
) -> dict[str, Any]:
    attempts = Attempts(on_progress)
    truth = attempts.attempt("loss_on_target", "the true loss", lambda: _losses(result, asked, seed or 0)) or {}
    if asked.baselines:
        truth["baselines"] = run_baselines(asked, result, seed, folder, attempts, on_progress, charging)
        if "loss_on_target" in truth:
            truth["reading"] = reading(asked, result, truth["loss_on_target"], truth["baselines"])
    return {**truth, **_left_out(attempts)}


def _losses(result: dict[str, Any], asked: Scenario, seed: int) -> dict[str, Any]:
    population, answer = evaluation_source(asked, seed), parse_hypothesis(result["answer"])
    found = judge(answer, population)
    truth: dict[str, Any] = {
        "loss_on_target": found.loss,
        "loss_on_negative": found.on_negative,
        "loss_on_positive": found.on_positive,
        "people": len(population),
    }
    if asked.agents.loss == "squared":
        truth["mean_squared_error"] = squared_error(answer, population)
    if "tasks" in result:
        truth["tasks"] = [loss(parse_hypothesis(task["answer"]), population) for task in result["tasks"]]
    if asked.people == "real":
        truth["note"] = "found out from the people's own records: outside every guarantee"
    return truth


def _left_out(attempts: Attempts) -> dict[str, Any]:
    return {"left_out": attempts.left_out} if attempts.left_out else {}
