"""Measure a point of the tables: a split, the method's candidates on it, and the best one's score on the test rows."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from benchmarks.adaptation.candidates import best, score
from benchmarks.adaptation.datasets import DATASETS
from benchmarks.adaptation.datasets.base import Pair
from benchmarks.adaptation.points import METHODS, MONTHS, SPLITS, Point
from benchmarks.adaptation.splits import split
from benchmarks.figures.store import Row


def missing(points: tuple[Point, ...], rows: list[Row], splits: int = SPLITS) -> list[tuple[Point, int]]:
    """Return what is still to be measured: the first split of every point, then the second, the wind's months last."""
    done = {(row.point, row.repetition) for row in rows}
    wanted = [(point, number) for number in range(splits) for point in points]
    wanted.sort(key=lambda task: task[0].dataset in MONTHS)
    return [task for task in wanted if (task[0].name, task[1]) not in done]


def measure(point: Point, number: int, data: Path) -> Row:
    """Measure one split. Settings are chosen on its validation rows, errors counted on its test rows.

    ``seed`` of the row is the split's number, from which all that is random follows.
    """
    began = time.perf_counter()
    pair = _pair(point.dataset, data)
    parts = split(pair, number, point.copies)
    chosen = best(parts, METHODS[point.method](pair, parts))
    measured = {"test": score(pair.task, parts.test, chosen.weights), "settings": chosen.settings}
    return Row(point.name, number, number, round(time.perf_counter() - began, 3), measured)


@cache
def _pair(dataset: str, data: Path) -> Pair:
    return DATASETS[dataset](data)
