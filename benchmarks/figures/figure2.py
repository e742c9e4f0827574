"""Figure 2 of Kohen & Sheffet: the ball in 200 dimensions without privacy (Appendix D).

Each repetition runs the scenario ``ball-paper-nonprivate`` with another number of people at the curator: a new sample,
new agents. Two losses are followed on people of T whom nobody else sees: the perceptron loss, which decides when to
halt, and the share of mistakes.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.figures.base import Curve, Figure, Measured, Others, Procedure, Results
from benchmarks.figures.plotting import COLOURS, band, boxes, panels
from benchmarks.figures.procedures import play, stopped_descent
from common.data.population import open_records
from common.local import losses
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import subseed
from common.scenario import loading
from common.scenario.scenario import settled
from curator.learners.base import parse_learner
from curator.learners.half_spaces import Sgd
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


def repeat_other(point: str, seed: int, procedure: Procedure) -> Measured:
    """Run the printed or the authors' procedure to the halt, or for the scenario's most rounds.

    Both stop the learner where the weighted sample's mistakes are at most alpha, and ask fresh people of T. Printed:
    the test is on the loss that Appendix D writes down; the authors': on mistakes.
    """
    chosen = settled(loading.load("ball-paper-nonprivate", [f"curator.n={point.removesuffix('K')}000"]))
    n, most = chosen.curator.n, chosen.curator.rounds
    learner = parse_learner(chosen.curator.learner)
    assert isinstance(learner, Sgd)
    people = open_records(chosen.source, None, subseed(seed, "source"), n).records(np.arange(n))
    learn = stopped_descent(learner, chosen.alpha)
    level = 2.0 * chosen.alpha

    def ended(found: list[float]) -> bool:
        return found[-1] <= level or len(found) == most

    tested: losses.Loss = "perceptron" if procedure == "printed" else "zero-one"
    found = play(people, chosen.target, learn, chosen.curator.eta, seed, ended, tested)
    judges = open_records(chosen.target, None, subseed(seed, "truth"), JUDGES).records(np.arange(JUDGES))
    hinge, mistaken = (_loss(kind, found.hypothesis, judges) for kind in ("perceptron", "zero-one"))
    total = len(found.losses)
    rounds = [*range(1, total, EVERY), total]
    return {
        "status": "done" if found.losses[-1] <= level else "exhausted",
        "rounds": total,
        "rounds at the start": found.same,
        "hinge": hinge,
        "mistakes": mistaken,
        "least mistakes on the way": min(found.mistakes),
        "curve": [rounds, [round(found.losses[r - 1], 5) for r in rounds], [found.mistakes[r - 1] for r in rounds]],
    }


def curve(measured: Measured) -> Curve:
    """Return rounds and mistakes on T."""
    rounds, _, mistakes = measured["curve"]
    return rounds, mistakes


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


OTHERS = Others(tuple(f"{size}K" for size in SIZES), repeat_other, curve, 0.02)
FIGURE = Figure("figure2", tuple(f"{size}K" for size in SIZES), repeat, draw, others=OTHERS)
