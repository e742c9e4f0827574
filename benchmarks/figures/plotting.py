"""What the figures share in drawing: three panels side by side, as in the paper, and what goes into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.figures.base import Curve

COLOURS = ("#0b6e99", "#d1495b", "#edae49", "#66a182", "#6b4e9b", "#2e4057", "#8d6a4f", "#999999")


@contextmanager
def panels(path: Path, titles: Sequence[str]) -> Iterator[list[Axes]]:
    """Give axes for a row of panels, and write them to ``path`` at the end: the same results, the same file."""
    # Nothing of a user's own matplotlib settings, and no random ids: the same results give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(4.4 * len(titles), 3.6), layout="constrained")
        axes = canvas.subplots(1, len(titles), squeeze=False)[0]
        for number, (axis, title) in enumerate(zip(axes, titles, strict=True)):
            axis.set_title(f"({chr(ord('a') + number)}) {title}", fontsize=10)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        yield list(axes)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def boxes(axis: Axes, groups: Sequence[Sequence[float]], labels: Sequence[str], colour: str, shift: float = 0.0) -> Any:
    """Draw one box a group (median, quartiles, all repetitions as points) at 1, 2, 3, ..."""
    places = np.arange(1, len(groups) + 1) + shift
    look = {"color": colour}
    drawn = axis.boxplot(
        [list(group) for group in groups],
        positions=places,
        widths=0.3,
        showfliers=False,
        boxprops=look,
        whiskerprops=look,
        capprops=look,
        medianprops={"color": colour, "linewidth": 2.0},
        manage_ticks=False,
    )
    for place, group in zip(places, groups, strict=True):
        if not group:
            continue
        # Spread over the box's width by rank, so that no two repetitions hide each other.
        offsets = np.linspace(-0.12, 0.12, len(group)) if len(group) > 1 else np.zeros(1)
        axis.plot(place + offsets, list(group), ".", color=colour, markersize=3, alpha=0.5)
    axis.set_xticks(np.arange(1, len(groups) + 1), labels, fontsize=9 if len(groups) < 10 else 7)
    return drawn


def band(
    axis: Axes,
    curves: Iterable[tuple[Sequence[float], Sequence[float]]],
    colour: str,
    label: str,
    style: str = "-",
) -> None:
    """Draw curves (rounds, losses) as their mean and their range; where a run has halted, it keeps its last value.

    Each curve holds the losses at some rounds, in ascending order; between them it is linear.
    """
    known = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in curves]
    grid = np.unique(np.concatenate([x for x, _ in known]))
    if len(grid) > 300:
        grid = np.unique(np.geomspace(grid[0], grid[-1], 300))
    values = np.stack([np.interp(grid, x, y) for x, y in known])
    axis.fill_between(grid, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    marker = "o" if len(grid) == 1 else None
    axis.plot(grid, values.mean(axis=0), color=colour, label=label, linestyle=style, marker=marker, linewidth=1.5)


def columns(path: Path, drawn: Mapping[str, Mapping[str, list[Curve]]], level: float) -> None:
    """Draw mistakes on T along the run, a column a procedure, which the title names with its repetitions."""
    titles = [f"{name}: {sum(map(len, points.values()))} repetitions" for name, points in drawn.items()]
    with panels(path, titles) as axes:
        for axis, points in zip(axes, drawn.values(), strict=True):
            for index, (point, curves) in enumerate(points.items()):
                if curves:
                    band(axis, curves, COLOURS[index % len(COLOURS)], point)
            axis.axhline(level, color="black", linewidth=0.8, linestyle="--")
            axis.set_ylim(bottom=0.0)
            axis.set_xlabel("round")
            axis.set_ylabel("mistakes on T")
            if points:
                axis.legend(frameon=False, fontsize=7)
