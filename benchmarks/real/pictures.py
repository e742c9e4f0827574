"""A picture of each shift: loss over epsilon, one line a method, in three panels with one scale."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures.plotting import COLOURS, panels
from benchmarks.real.running import Row

PANELS = {
    "one side alone": ("constant", "curator-alone", "agents-alone"),
    "both sides": ("str", "portfolio", "private-optimum"),
    "without privacy": ("balance", "balance-propensity", "optimum"),
}


def draw(rows: list[Row], path: Path) -> None:
    """Draw one shift's rows to ``path``."""
    measured = [row for row in rows if row["splits"]]
    epsilons = sorted({row["epsilon"] for row in measured})
    with panels(path, tuple(PANELS)) as axes:
        for axis, names in zip(axes, PANELS.values(), strict=True):
            for colour, name in zip(COLOURS, names, strict=False):
                line = sorted((row for row in measured if row["method"] == name), key=lambda row: row["epsilon"])
                if not line:
                    continue
                places = [row["epsilon"] for row in line]
                means = [row["mean"] for row in line]
                spread = [[row["mean"] - _low(row) for row in line], [_high(row) - row["mean"] for row in line]]
                axis.errorbar(places, means, spread, label=name, color=colour, marker="o", markersize=3, capsize=3)
            axis.set_xscale("log")
            axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            axis.minorticks_off()
            axis.set_xlabel("epsilon of both sides")
            axis.set_ylim(_limits(measured))
            if axis.has_data():
                axis.legend(fontsize=7)
        axes[0].set_ylabel("0/1 loss on T")


def _low(row: Row) -> float:
    return float(row["mean"] if row["low"] is None else row["low"])


def _high(row: Row) -> float:
    return float(row["mean"] if row["high"] is None else row["high"])


def _limits(rows: Iterable[Row]) -> tuple[float, float]:
    low, high = min(map(_low, rows)), max(map(_high, rows))
    margin = 0.05 * (high - low) + 0.002
    return low - margin, high + margin
