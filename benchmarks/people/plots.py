"""The picture: people by paper and by tight bounds, Appendix D step by step, and the search for its smallest n."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from benchmarks.figures.plotting import COLOURS, panels

PAPER, TIGHT, SEEN = COLOURS[1], COLOURS[0], COLOURS[3]


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw three panels to ``path``; without results, what the formulas say."""
    with panels(path, ("people of the curator", "Appendix D, private, step by step", "its smallest n")) as axes:
        _compare(axes[0], found["table"])
        _climb(axes[1], found["ladder"])
        _search(axes[2], found["search"])


def _compare(axis: Axes, table: list[dict[str, Any]]) -> None:
    titles = [line["title"].replace(" (", "\n(").replace(", ", ",\n", 1) for line in reversed(table)]
    for place, line in enumerate(reversed(table)):
        paper, tight = line["paper"]["n"], line["tight"]["n"]
        axis.plot([tight, paper], [place, place], color="#bbbbbb", linewidth=2, zorder=1)
        axis.plot(paper, place, "o", color=PAPER, label="paper" if place == 0 else None)
        axis.plot(tight, place, "o", color=TIGHT, label="tight, run to its halt" if place == 0 else None)
        middle, times = (paper * tight) ** 0.5, float(f"{paper / tight:.2g}")
        axis.annotate(
            f"{times:,.0f} times", (middle, place), (0, 3), textcoords="offset points", ha="center", fontsize=7
        )
    axis.set_yticks(range(len(titles)), titles, fontsize=7)
    axis.set_xscale("log")
    axis.set_xlabel("n")
    axis.set_ylim(-0.6, len(table) + 0.2)
    axis.legend(fontsize=7, loc="upper center", ncols=2)


def _climb(axis: Axes, ladder: list[dict[str, Any]]) -> None:
    for place, rung in enumerate(reversed(ladder)):
        axis.barh(place, rung["n"], color=PAPER if place == len(ladder) - 1 else TIGHT, height=0.55)
        axis.text(rung["n"] * 1.3, place, f"{rung['n']:,}", va="center", fontsize=7)
        axis.text(120, place + 0.32, rung["step"], va="bottom", fontsize=6.5)
    axis.set_xscale("log")
    axis.set_xlim(100, 2e11)
    axis.set_ylim(-0.5, max(1, len(ladder)))
    axis.set_yticks([])
    axis.set_xlabel("n")


def _search(axis: Axes, search: list[dict[str, Any]]) -> None:
    for run in search:
        low, high = run["interval"]
        share = run["good"] / run["runs"]
        axis.errorbar(
            run["n"], share, [[share - low], [high - share]], fmt="o", color=TIGHT, capsize=3, elinewidth=1
        )  # fmt: skip
    axis.axhline(0.95, color=SEEN, linewidth=1, linestyle="--")
    axis.set_ylim(0.5, 1.02)
    axis.set_xlabel("n")
    axis.set_ylabel("share of runs that halted with\na true loss of at most 2 alpha")
