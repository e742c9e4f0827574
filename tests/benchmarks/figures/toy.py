"""A figure that measures in no time what its seed says."""

import os
import time
from pathlib import Path

from benchmarks.figures.base import Figure, Measured, Results
from benchmarks.figures.plotting import band, boxes, panels


def repeat(point: str, seed: int) -> Measured:
    """Measure three rounds; the point ``slow`` takes its time."""
    if point == "slow":
        time.sleep(0.2)
    if point == "deadly":
        os._exit(9)
    return {"loss": seed % 100 / 100, "rounds": 3, "curve": [0.5, 0.4, seed % 100 / 100], "why": "toy"}


def draw(results: Results, path: Path) -> None:
    """Draw two panels."""
    with panels(path, ("Loss", "Along the run")) as (left, right):
        boxes(left, [[m["loss"] for m in group] for group in results.values()], list(results), "black")
        for point, group in results.items():
            band(right, [([1, 2, 3], m["curve"]) for m in group], "black", point)


FIGURE = Figure("toy", ("quick", "slow"), repeat, draw, repetitions=4)
DEADLY = Figure("deadly", ("deadly",), repeat, draw, repetitions=1)
