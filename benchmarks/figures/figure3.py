"""Figure 3 of Kohen & Sheffet: the ball in 8 dimensions with privacy on both sides (Appendix D).

Each repetition runs the scenario ``ball-paper-size`` with another number R of steps of SGD a round and another diameter
D in the step size: a new sample, new agents. At the paper's n a repetition takes 5.7 GiB, and both cores for twenty
seconds; other diameters than its own have a sample of 14 million. Noise, steps, kappa and the law of every round's
draws are the same; what a smaller n changes is the privacy (the same steps cost more) and the sampling error of the
sample itself, 0.0001.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.figures.base import Figure, Measured, Results
from benchmarks.figures.plotting import COLOURS, band, boxes, panels
from common.data.population import open_records
from common.local.hypotheses.hypothesis import Hypothesis
from common.numerics.randomness import subseed
from common.scenario import loading
from common.scenario.scenario import settled
from deploy.baselines import loss
from deploy.simulation import conduct

STEPS = (50, 75, 100)
"""R in millions, as in the paper."""
DIAMETERS = (1, 3, 6)
"""D; 3 is the literal diameter of the box [0, 1]^9."""
FULL, SMALL = 324_700_000, 14_000_000
JUDGES = 400_000
"""People of T on whom every hypothesis is judged."""
MAX_ROUNDS = 40
"""Rounds after which a repetition is given up."""


def name(steps: int, diameter: int, n: int) -> str:
    """Return a point's name."""
    return f"R={steps}M D={diameter}" + (" full" if n == FULL else "")


POINTS = {name(steps, diameter, SMALL): (steps, diameter, SMALL) for diameter in DIAMETERS for steps in STEPS} | {
    name(steps, 3, FULL): (steps, 3, FULL) for steps in STEPS
}


def repeat(point: str, seed: int) -> Measured:
    """Run once to the halt, or for :data:`MAX_ROUNDS` rounds, and judge every hypothesis."""
    steps, diameter, n = POINTS[point]
    settings = (
        f"curator.n={n}",
        f"curator.learner.steps={steps}000000",
        f"curator.learner.diameter={diameter}.0",
        f"curator.rounds={MAX_ROUNDS}",
    )
    chosen = settled(loading.load("ball-paper-size", list(settings)))
    judges = open_records(chosen.target, None, subseed(seed, "truth"), JUDGES)
    losses: list[float] = []
    watching = 0.0

    def on_progress(number: int, hypothesis: Hypothesis) -> None:
        nonlocal watching
        began = time.perf_counter()
        losses.append(round(loss(hypothesis, judges), 5))
        watching += time.perf_counter() - began

    began = time.perf_counter()
    outcome = conduct(chosen, seed, on_progress)
    return {
        "status": outcome.status,
        "rounds": outcome.iterations,
        "first loss": losses[0],
        "last loss": losses[-1],
        "run seconds": round(time.perf_counter() - began - watching, 2),
        "curve": losses,
    }


def draw(results: Results, path: Path) -> None:
    """Draw the three panels of the paper: loss at the halt, rounds, loss along the run; a colour for each D."""
    titles = ("Loss on T at the halt", "Rounds until the halt", "Loss on T along the run")
    labels = [f"R = {steps}M" for steps in STEPS]
    with panels(path, titles) as (left, middle, right):
        for index, (diameter, n) in enumerate([*((d, SMALL) for d in DIAMETERS), (3, FULL)]):
            groups = [results.get(name(steps, diameter, n), []) for steps in STEPS]
            label = f"D = {diameter}" + (", full size" if n == FULL else "")
            shift = (index - 1.5) * 0.2
            boxes(left, [[m["last loss"] for m in group] for group in groups], labels, COLOURS[index], shift)
            boxes(middle, [[m["rounds"] for m in group] for group in groups], labels, COLOURS[index], shift)
            left.plot([], [], color=COLOURS[index], label=label)
            for style, group in zip(("-", "--", ":"), groups, strict=True):
                if group:
                    curves = [(range(1, len(m["curve"]) + 1), m["curve"]) for m in group]
                    band(right, curves, COLOURS[index], "", style)
        left.axhline(0.16, color="black", linewidth=0.8, linestyle="--")
        left.set_ylim(bottom=0.0)
        left.legend(frameon=False)
        middle.set_yscale("log")
        right.axhline(0.16, color="black", linewidth=0.8, linestyle="--")
        right.set_xlabel("round (lines: R = 50M, dashed: 75M, dotted: 100M)")


FIGURE = Figure("figure3", tuple(POINTS), repeat, draw)
