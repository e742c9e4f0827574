"""Numbers of a figure: mean, deviation and range of whatever its repetitions measured."""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table

from benchmarks.figures.base import Figure, Procedure, Results
from benchmarks.figures.store import Row


def grouped(figure: Figure, rows: list[Row], procedure: Procedure = "tandem") -> Results:
    """Return what a procedure measured by point, in the figure's order, each point by repetition."""
    ordered = sorted((row for row in rows if row.procedure == procedure), key=lambda row: row.repetition)
    groups = {point: [row.measured for row in ordered if row.point == point] for point in figure.points_of(procedure)}
    return {point: group for point, group in groups.items() if group}


def summaries(figure: Figure, rows: list[Row], procedure: Procedure = "tandem") -> list[dict[str, Any]]:
    """Return a summary of each point: its repetitions, and mean, deviation, least and most of each number."""
    found = []
    for point, group in grouped(figure, rows, procedure).items():
        seconds = [row.seconds for row in rows if (row.point, row.procedure) == (point, procedure)]
        numbers = [key for key, value in group[0].items() if _is_number(value)]
        columns = {key: [m[key] for m in group if _is_number(m.get(key))] for key in numbers}
        found.append(
            {
                "figure": figure.name,
                "point": point,
                "repetitions": len(group),
                "seconds": _spread(seconds),
                **{key: _spread(values) for key, values in columns.items()},
            }
        )
    return found


def table(figure: Figure, found: list[dict[str, Any]]) -> Table:
    """Return the summaries as a table: mean +- deviation."""
    drawn = Table(title=figure.name)
    for key in found[0] if found else ():
        if key != "figure":
            drawn.add_column(key)
    for summary in found:
        drawn.add_row(*(_cell(value) for key, value in summary.items() if key != "figure"))
    return drawn


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "least": min(values),
        "most": max(values),
    }


def _cell(value: Any) -> str:
    return f"{value['mean']:.4g} ± {value['deviation']:.2g}" if isinstance(value, dict) else str(value)
