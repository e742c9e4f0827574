"""Results to rows of tables: mean and deviation over the splits, the paper's numbers and a note beside them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.adaptation.notes import note
from benchmarks.adaptation.paper import ACCURACY, RELATIVE_ERROR
from benchmarks.adaptation.points import MONTHS, Point, points, private
from benchmarks.figures.store import Row

REFERENCE = "train on target"
EARLIER = "earlier; "
"""Before the name of a point that was measured with the settings of version 0.2."""
TABLES: dict[int, tuple[str, ...]] = {
    1: ("SBest", "CnvxAdap", *private("CnvxAdap")),
    2: ("train on source", "train on target", "SBest", "NCnvxAdap", *private("NCnvxAdap")),
    3: ("train on source", "KMM", "DM", "CnvxAdap"),
    6: ("train on source", "train on target", "KMM", "NCnvxAdap"),
}
"""Methods by the number of the paper's table: 1 and 3 regression, 2 and 6 classification."""

Scores = Mapping[str, Mapping[int, float]]
"""Of each point, by split."""


def classifies(number: int) -> bool:
    """Tell whether a table is of accuracies, not of relative errors."""
    return number in (2, 6)


def needs(number: int, point: Point) -> bool:
    """Tell whether a table shows a point, or what it is compared with."""
    return (point.dataset in ACCURACY) == classifies(number) and point.method in (*TABLES[number], REFERENCE)


def scores(rows: Iterable[Row]) -> dict[str, dict[int, float]]:
    """Return what each point's splits measured."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        found.setdefault(row.point, {})[row.repetition] = float(row.measured["test"])
    return found


def table(number: int, measured: Scores) -> list[dict[str, Any]]:
    """Return the rows of one table: errors relative to training on the target in 1 and 3, per cent in 2 and 6.

    A point with fewer than two splits is left out.
    """
    rows, classified = [], classifies(number)
    shown = [
        point
        for point in points()
        if needs(number, point) and point.method in TABLES[number] and point.dataset not in MONTHS
    ]
    for point, before in [(point, before) for point in shown for before in ("", EARLIER)]:
        values = _values(point, measured, classified, before)
        if len(values) < 2:
            continue
        paper = (ACCURACY if classified else RELATIVE_ERROR).get(point.dataset, {}).get(point.method)
        digits = 2 if classified else 3
        rows.append(
            {
                "table": str(number),
                "dataset": point.dataset if point.copies == "none" else f"{point.dataset} ({point.copies} copies)",
                "method": f"{point.method} (earlier)" if before else point.method,
                "mean": round(statistics.fmean(values), digits),
                "deviation": round(statistics.stdev(values), digits),
                "paper_mean": paper[0] if paper else None,
                "paper_deviation": paper[1] if paper else None,
                "note": note(point, len(values), None if before else _months(point, measured), earlier=bool(before)),
            }
        )
    return rows


def _values(point: Point, measured: Scores, classified: bool, before: str = "") -> list[float]:
    own = measured.get(before + point.name, {})
    if classified:
        return [100.0 * value for value in own.values()]
    reference = measured.get(Point(point.dataset, point.copies, REFERENCE).name, {})
    return [value / reference[split] for split, value in own.items() if split in reference]


def _months(point: Point, measured: Scores) -> tuple[float, float] | None:
    """Return the least and the greatest mean over the seven months that wind's target may be."""
    if point.dataset != "wind":
        return None
    found = [_values(Point(name, "none", point.method), measured, False) for name in ("wind", *MONTHS)]
    means = [statistics.fmean(values) for values in found if values]
    return (min(means), max(means)) if len(means) == len(MONTHS) + 1 else None
