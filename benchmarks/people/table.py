"""The tables, for people to read."""

from __future__ import annotations

from typing import Any

from rich.table import Table


def tables(found: dict[str, Any]) -> list[Table]:
    """Return the comparison, the search, and Appendix D step by step."""
    return [_comparison(found), _search(found), _ladder(found)]


def _comparison(found: dict[str, Any]) -> Table:
    table = Table(title="People needed")
    for column in ("setting", "bounds", "n", "answers a round", "rounds", "agents in all", "halted well", "loss on T"):
        table.add_column(column, justify="left" if column in ("setting", "bounds") else "right")
    for line in found["table"]:
        paper, tight, run = line["paper"], line["tight"], line["run"]
        table.add_row(line["title"], "paper", *(f"{paper[key]:,}" for key in ("n", "answers", "rounds", "agents")))
        most = [f"<= {tight[key]:,}" for key in ("answers", "rounds", "agents")]
        table.add_row("", "tight", f"{tight['n']:,}", *most)
        if run is not None:
            seen = (f"{run['asked'] / run['rounds']:,.0f}", f"{run['rounds']:.2f}", f"{run['asked']:,.0f}")
            table.add_row("", "as run", "", *seen, _good(run), _loss(run), end_section=True)
    return table


def _search(found: dict[str, Any]) -> Table:
    table = Table(title="Appendix D, private: runs that halted with a true loss of at most 2 alpha")
    for column in ("n", "halted well", "95% interval", "mean loss", "worst loss", "answers"):
        table.add_column(column, justify="right")
    for run in [*found["search"], *([found["literal"]] if found["literal"] else [])]:
        low, high = run["interval"]
        name = f"{run['n']:,}" + (" (the paper's learner)" if run["point"] == "literal" else "")
        loss = run["loss"]
        table.add_row(
            name, _good(run), f"{low:.3f} .. {high:.3f}", f"{loss['mean']:.4f}", f"{loss['worst']:.4f}",
            f"{run['asked']:,.0f}",
        )  # fmt: skip
    return table


def _ladder(found: dict[str, Any]) -> Table:
    table = Table(title="Appendix D, private, step by step")
    table.add_column("what is made tight")
    table.add_column("n", justify="right")
    for rung in found["ladder"]:
        table.add_row(rung["step"], f"{rung['n']:,}")
    return table


def _good(run: dict[str, Any]) -> str:
    return f"{run['good']} of {run['runs']}"


def _loss(run: dict[str, Any]) -> str:
    return f"{run['loss']['mean']:.4f} (<= {run['loss']['worst']:.4f}; {run['level']:g})"
