"""Figure 3 of Kohen & Sheffet: the ball in 8 dimensions with privacy on both sides (Appendix D).

Each repetition runs the scenario ``ball-paper-size`` with another number R of steps of SGD a round and another diameter
D in the step size: a new sample, new agents. At the paper's n a repetition takes 5.7 GiB, and both cores for twenty
seconds; other diameters than its own have a sample of 14 million. Noise, steps, kappa and the law of every round's
draws are the same; what a smaller n changes is the privacy (the same steps cost more) and the sampling error of the
sample itself, 0.0001.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from benchmarks.figures.base import Curve, Figure, Measured, Others, Procedure, Results
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
WIDTH, SIGMA = 9, math.sqrt(0.2)
"""Coordinates of a hypothesis; deviation of the noise on each, sqrt(20) L."""
MAX_ROUNDS = 40
"""Rounds after which a repetition is given up."""


def name(steps: int, diameter: int, n: int) -> str:
    """Return a point's name."""
    return f"R={steps}M D={diameter}" + (" full" if n == FULL else "")


POINTS = {name(steps, diameter, SMALL): (steps, diameter, SMALL) for diameter in DIAMETERS for steps in STEPS} | {
    name(steps, 3, FULL): (steps, 3, FULL) for steps in STEPS
}


def repeat(point: str, seed: int, procedure: Procedure = "tandem") -> Measured:
    """Run once to the halt, or for :data:`MAX_ROUNDS` rounds, and judge every hypothesis."""
    steps, diameter, n = POINTS[point]
    settings = (
        f"curator.n={n}",
        f"curator.learner.steps={steps}000000",
        f"curator.learner.diameter={diameter}.0",
        f"curator.rounds={MAX_ROUNDS}",
        *step_settings(procedure, float(diameter)),
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


def step_settings(procedure: Procedure, diameter: float) -> tuple[str, ...]:
    """Return settings of the learner for which step r is the procedure's; the box makes D nothing but the step's size.

    Printed: D/(sigma sqrt(r)), where ours is D/(sqrt(L^2 + sigma^2 dim) sqrt(r)). The authors' is that with the
    intercept's feature 1, whose gradient is 1 in size, and the same noise, of L = 0.1: it no longer covers a gradient.
    """
    if procedure == "tandem":
        return ()
    clip, feature = (0.1, None) if procedure == "printed" else (math.hypot(0.1, 1.0), -1.0)
    noise = SIGMA / clip
    longer = math.sqrt(1.0 / noise**2 + WIDTH) * diameter
    settings = (f"curator.learner.diameter={longer!r}",)
    if feature is None:
        return settings
    more = (
        f"curator.learner.intercept={feature}",
        f"curator.learner.clip={clip!r}",
        f"curator.learner.noise={noise!r}",
    )
    return settings + more


def curve(measured: Measured) -> Curve:
    """Return rounds and mistakes on T."""
    return range(1, len(measured["curve"]) + 1), measured["curve"]


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


OTHERS = Others(tuple(name(steps, 3, SMALL) for steps in STEPS), repeat, curve, 0.16)
FIGURE = Figure("figure3", tuple(POINTS), repeat, draw, others=OTHERS)
