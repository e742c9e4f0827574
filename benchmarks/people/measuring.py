"""Runs to the halt: what one of them measures, and what many of them come to."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

from scipy.stats import beta as beta_law

from benchmarks.figures.store import Row
from benchmarks.people.settings import ready
from common.numerics.randomness import subseed
from common.protocols.base import Progress
from deploy.baselines import evaluation_source, loss
from deploy.simulation import conduct

CONFIDENCE = 0.95


def run(point: str, repetition: int) -> Row:
    """Run a point's scenario once, from fresh people, with a seed of the point's and the repetition's own.

    Measured: whether it halted, after how many rounds and answers, and the true loss on T after each round.
    """
    scenario, seed = ready(point), subseed(repetition, f"people confirm {point}")
    began = time.perf_counter()
    judge = evaluation_source(scenario, seed)
    losses: list[float] = []
    asked: list[int] = []

    def on_progress(note: Progress) -> None:
        if "asked" in note.numbers:
            asked.append(int(note.numbers["asked"]))

    found = conduct(scenario, seed, lambda number, h: losses.append(loss(h, judge)), on_progress=on_progress)
    measured: dict[str, Any] = {
        "status": found.status,
        "rounds": found.iterations,
        "asked": sum(asked),
        "losses": losses,
        "loss": losses[-1] if found.status == "done" else loss(found.hypothesis, judge),
    }
    return Row(point, repetition, seed, round(time.perf_counter() - began, 3), measured)


def summary(point: str, rows: list[Row]) -> dict[str, Any]:
    """Summarize a point's runs.

    A run is *good* if it halted (the agents certified the answer) and the answer's true loss on T is at most
    ``halt_below * alpha``. The interval for the chance of a good run is Clopper and Pearson's.
    """
    scenario = ready(point)
    level = scenario.levels[1]
    halted = [row.measured for row in rows if row.measured["status"] == "done"]
    good = sum(found["loss"] <= level for found in halted)
    low, high = clopper_pearson(good, len(rows), CONFIDENCE)
    every = [row.measured for row in rows]
    return {
        "point": point,
        "n": scenario.curator.n,
        "level": level,
        "runs": len(rows),
        "halted": len(halted),
        "good": good,
        "interval": [low, high],
        "loss": {
            "mean": statistics.fmean(found["loss"] for found in every),
            "worst": max(found["loss"] for found in every),
            "first_round": statistics.fmean(found["losses"][0] for found in every),
        },
        "rounds": statistics.fmean(found["rounds"] for found in every),
        "asked": statistics.fmean(found["asked"] for found in every),
    }


def clopper_pearson(good: int, runs: int, confidence: float) -> tuple[float, float]:
    """Return the exact interval for a chance after ``good`` successes in ``runs`` independent trials."""
    miss = (1.0 - confidence) / 2.0
    low = 0.0 if good == 0 else float(beta_law.ppf(miss, good, runs - good + 1))
    high = 1.0 if good == runs else float(beta_law.ppf(1.0 - miss, good + 1, runs - good))
    return low, high


def smallest(summaries: list[dict[str, Any]], share: float = 0.95) -> int | None:
    """Return the least n from which on every measured n is good in at least that share of its runs."""
    found = None
    for entry in sorted(summaries, key=lambda entry: -int(entry["n"])):
        if entry["good"] < math.ceil(share * entry["runs"]):
            break
        found = int(entry["n"])
    return found
