"""Several classes on real shifts: the error of TransferClassifier's answer, and the log loss of its probabilities.

    python -m benchmarks.real.classes [--splits 5] [--data DIR]

Wine's marks are three classes: at most 5, 6, and at least 7. Responses of gas sensors, which have many magnitudes, are
taken as logarithms. A fifth of T, drawn anew in each split, evaluates the answer; the others are the agents. epsilon is
1 on both sides. It takes half a minute; docs/portfolio.md has the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.real.datasets import DATASETS, SHELF
from tandem import TransferClassifier

EPSILON = 1.0
Rows = Callable[[polars.DataFrame], polars.Series]


@dataclass(frozen=True)
class Shift:
    """A shift: the people of the curator, the agents, and the class of each.

    Attributes:
        unit: The transformation of the features and of their public bounds.
    """

    words: str
    data: str
    source: Rows
    target: Rows
    classes: Rows
    unit: Callable[[Any], Any] = np.asarray


def _colour(name: str) -> Rows:
    return lambda rows: rows["colour"] == name


def _marks(rows: polars.DataFrame) -> polars.Series:
    return rows["quality"].clip(5, 7)


SHIFTS = (
    Shift("wine's marks (3), red to white", "wine_quality", _colour("red"), _colour("white"), _marks),
    Shift("wine's marks (3), white to red", "wine_quality", _colour("white"), _colour("red"), _marks),
    Shift(
        "gases (6), sensors that drift",
        "gas_drift",
        lambda rows: rows["batch"] <= 5,
        lambda rows: rows["batch"] > 5,
        lambda rows: rows["gas"],
        lambda numbers: np.log1p(np.maximum(numbers, 0.0)),
    ),
)
COLUMNS = ("S, T, classes", "n, N", "constant", "answer", "S in the clear", "T in the clear")
ODDS = ("log loss: answer, T's shares", "worse splits")


def measured(shift: Shift, data: Path, seed: int) -> tuple[str, list[float]]:
    """Return n and N; errors of the best constant, the answer, S and T in the clear; log losses, T's shares' last."""
    known = DATASETS[shift.data]
    rows, columns = known.read(data / shift.data), known.table["features"]
    names = [column["column"] for column in columns]
    (source, classes), (others, own) = (
        (shift.unit(side.select(names).to_numpy()), shift.classes(side).to_numpy())
        for side in (rows.filter(of(rows)) for of in (shift.source, shift.target))
    )
    order = np.random.default_rng(seed).permutation(len(own))
    held, asked = np.split(order, [len(order) // 5])
    agents, told, truth = (others[asked], own[asked]), others[held], own[held]
    bounds = [tuple(shift.unit(np.array([column["low"], column["high"]]))) for column in columns]
    model = TransferClassifier(EPSILON, bounds=bounds, random_state=seed).fit(source, classes, population=agents)
    clear = [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(*people)
        for people in ((source, classes), agents)
    ]
    places = np.searchsorted(model.classes_, truth)
    shares = np.bincount(places, minlength=len(model.classes_)) / len(places)
    errs = [float((each.predict(told) != truth).mean()) for each in (model, *clear)]
    chances = model.predict_proba(told)[np.arange(len(places)), places]
    losses = [-float(np.log(of).mean()) for of in (chances, shares[places])]
    return f"{len(classes):,}; {len(asked):,}", [1.0 - float(shares.max()), *errs, *losses]


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a row of the table for each shift."""
    parser = argparse.ArgumentParser(description="Several classes on real shifts.")
    parser.add_argument("--splits", type=int, default=5, help="splits of each shift (5)")
    parser.add_argument("--data", type=Path, default=SHELF, help="where data sets lie")
    chosen = parser.parse_args(arguments)
    print(f"| {' | '.join((*COLUMNS, *ODDS))} |\n|---{'|--:' * 7}|")
    for shift in SHIFTS:
        found = [measured(shift, chosen.data, seed) for seed in range(chosen.splits)]
        splits = np.array([numbers for _, numbers in found])
        *errs, odds, base = splits.mean(axis=0)
        worse = int((splits[:, 4] > splits[:, 5]).sum())
        cells = [found[0][0], *(f"{100.0 * err:.1f}" for err in errs), f"{odds:.2f}, {base:.2f}"]
        print(f"| {shift.words} | {' | '.join(cells)} | {worse} of {len(splits)} |", flush=True)


if __name__ == "__main__":
    main()
