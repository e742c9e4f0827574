"""The tables, for people to read."""

from __future__ import annotations

from typing import Any

from rich.table import Table


def tables(found: dict[str, Any]) -> list[Table]:
    """Return the comparison, all runs, and Appendix D step by step."""
    return [_comparison(found), _runs(found), _ladder(found)]


def _comparison(found: dict[str, Any]) -> Table:
    table = _table("People needed", "setting", "n", "answers a round", "rounds", "agents in all")
    for line in found["table"]:
        for bounds in ("paper", "tight"):
            need = line[bounds]
            numbers = (f"{need[key]:,}" for key in ("n", "answers", "rounds", "agents"))
            table.add_row(f"{line['title']}: {bounds}", *numbers, end_section=bounds == "tight")
    return table


def _runs(found: dict[str, Any]) -> Table:
    table = _table("The tight ones, run", "setting", "n", "good runs", "95%", "loss", "worst", "rounds", "answers")
    known = [(line["title"], line["run"]) for line in found["table"] if not line["setting"].startswith("appendix-d/")]
    searched = [("Appendix D, private", run) for run in found["search"]]
    for title, run in [*searched, ("the same, the paper's learner", found["literal"]), *known]:
        if run is not None:
            low, high = run["interval"]
            loss = run["loss"]
            table.add_row(
                title,
                f"{run['n']:,}",
                f"{run['good']}/{run['runs']}",
                f"{low:.2f}-{high:.2f}",
                f"{loss['mean']:.3f}",
                f"{loss['worst']:.3f}",
                f"{run['rounds']:.2f}",
                f"{run['asked']:,.0f}",
            )
    return table


def _ladder(found: dict[str, Any]) -> Table:
    table = _table("Appendix D, private, step by step", "what is made tight", "n")
    for rung in found["ladder"]:
        table.add_row(rung["step"], f"{rung['n']:,}")
    return table


def _table(title: str, name: str, *numbers: str) -> Table:
    table = Table(title=title)
    table.add_column(name)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table
