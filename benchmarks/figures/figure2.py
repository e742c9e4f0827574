"""Figure 2 of Kohen & Sheffet: the ball in 200 dimensions without privacy (Appendix D).

Each repetition runs the scenario ``ball-paper-nonprivate`` with another number of people at the curator: a new sample,
new agents. Two losses are followed on people of T whom nobody else sees: the perceptron loss, which decides when to
halt, and the share of mistakes.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.figures.base import Figure, Measured, Results
from benchmarks.figures.plotting import COLOURS, band, boxes, panels
from common.data.population import open_records
from common.local import losses
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import subseed
from common.scenario import loading
from common.scenario.scenario import settled
from deploy.simulation import conduct

SIZES = (75, 100, 125, 150, 175, 200)
"""n in thousands, as in the paper."""
WITNESSES, JUDGES = 10_000, 100_000
"""People of T on whom the hypotheses along the run, and the last one, are judged."""
EVERY = 10


def repeat(point: str, seed: int) -> Measured:
    """Run once with the given number of thousands, and measure until the halt."""
    chosen = settled(loading.load("ball-paper-nonprivate", [f"curator.n={point.removesuffix('K')}000"]))
    population = open_records(chosen.target, None, subseed(seed, "truth"), WITNESSES + JUDGES)
    witnesses = population.records(np.arange(WITNESSES))
    rounds: list[int] = []
    hinges: list[float] = []
    mistakes: list[float] = []
    watching = 0.0

    def on_progress(number: int, hypothesis: Hypothesis) -> None:
        nonlocal watching
        began = time.perf_counter()
        if number % EVERY == 1:
            rounds.append(number)
            hinges.append(_loss("perceptron", hypothesis, witnesses))
            mistakes.append(_loss("zero-one", hypothesis, witnesses))
        watching += time.perf_counter() - began

    began = time.perf_counter()
    outcome = conduct(chosen, seed, on_progress)
    took = time.perf_counter() - began - watching
    judges = population.records(np.arange(WITNESSES, WITNESSES + JUDGES))
    hinge, mistaken = (_loss(kind, outcome.hypothesis, judges) for kind in ("perceptron", "zero-one"))
    return {
        "status": outcome.status,
        "rounds": outcome.iterations,
        "hinge": hinge,
        "mistakes": mistaken,
        "least mistakes on the way": min(mistakes),
        "run seconds": round(took, 2),
        "curve": [
            [*rounds, outcome.iterations],
            [round(v, 5) for v in [*hinges, hinge]],
            [round(v, 5) for v in [*mistakes, mistaken]],
        ],
    }


def draw(results: Results, path: Path) -> None:
    """Draw the three panels of the paper: loss at the halt, rounds, losses along the run."""
    labels = list(results)
    titles = ("Loss on T at the halt", "Rounds until the halt", "Loss on T along the run")
    with panels(path, titles) as (left, middle, right):
        boxes(left, [[m["mistakes"] for m in group] for group in results.values()], labels, COLOURS[1], 0.0)
        boxes(left, [[m["hinge"] for m in group] for group in results.values()], labels, COLOURS[0], 0.0)
        left.axhline(0.02, color="black", linewidth=0.8, linestyle="--")
        left.set_ylim(bottom=0.0)
        boxes(middle, [[m["rounds"] for m in group] for group in results.values()], labels, COLOURS[5])
        middle.set_ylim(bottom=0.0)
        for axis in (left, middle):
            axis.set_xlabel("people at the curator, n")
        curves = [m["curve"] for group in results.values() for m in group]
        band(right, [(x, mistakes) for x, _, mistakes in curves], COLOURS[1], "mistakes (0/1 loss)")
        band(right, [(x, hinge) for x, hinge, _ in curves], COLOURS[0], "hinge loss, clamped to 1")
        right.set_xlabel("round")
        right.legend(frameon=False)


def _loss(kind: losses.Loss, hypothesis: Hypothesis, records: Records) -> float:
    return float(losses.evaluate(kind, hypothesis, records).mean())


FIGURE = Figure("figure2", tuple(f"{size}K" for size in SIZES), repeat, draw)
