"""Check which code measured the rows of real shifts, and whether the present code reproduces them.

A hash of sources would change with every comment, and a version number with no change of code. So the present code is
run: it must give each row's settings and, for epsilon :data:`DEMANDED`, each row's loss on its first split, which
depends only on the people and the seed.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures.store import ORIGIN
from benchmarks.real.methods import METHODS
from benchmarks.real.running import Row, Task, measure, opened
from benchmarks.real.shifts import by_name

DEMANDED = 1.0
"""The epsilon of both sides at which the criteria are checked, and rows are measured again."""
_SETTLED = ("n", "agents", "settings", "share_source", "share_target")


def unlike(rows: list[Row], data: Path, jobs: int) -> list[str]:
    """Return a sentence for each row that the present code does not reproduce; takes some minutes on two cores.

    Args:
        rows: At most one of each shift, method and epsilon.
        data: Folder of the data sets. A row whose data set is missing is not reproduced.
        jobs: Processes.
    """
    found: list[str] = []
    again: dict[tuple[object, ...], tuple[Task, list[tuple[str, Row]]]] = {}
    for row in rows:
        name = f"{row['shift']}, {row['method']}, epsilon = {row['epsilon']:g}"
        task = Task(row["shift"], row["method"], (row["epsilon"],), 1, row["agents"], data)
        if ORIGIN not in row:
            found.append(f"{name}: the row does not say which version measured it")
        elif not (folder := data / by_name(row["shift"]).data).is_dir():
            found.append(f"{name}: there is no {folder} to measure it again on")
        elif (changed := opened(task)[0]) and any(changed[what] != row[what] for what in _SETTLED):
            found.append(f"{name}: its people or settings are others today")
        elif row["epsilon"] == DEMANDED or not METHODS[row["method"]].private:
            again.setdefault(_run(row), (task, []))[1].append((name, row))

    def compare(fresh: Row) -> None:
        for name, row in again[_run(fresh)][1]:
            if fresh["losses"] != _first(row, len(fresh["losses"])):
                here = fresh["losses"][0] if fresh["losses"] else "a refusal"
                there = row["losses"][0] if row["losses"] else "a refusal"
                found.append(f"{name}: the first split gives {here}, the row has {there}")

    if again:
        measure([task for task, _ in again.values()], jobs, compare)
    return sorted(found)


def _run(row: Row) -> tuple[object, ...]:
    """Return the settings that a split of a row depends on: without epsilon if the method is not private."""
    epsilon = row["epsilon"] if METHODS[row["method"]].private else None
    return row["shift"], row["method"], epsilon, row["agents"]


def _first(row: Row, count: int) -> list[float]:
    """Return the loss on the first split; empty if that split was refused today (``count`` 0), and some were before."""
    losses: list[float] = row["losses"]
    if not count and row["splits"] < row["asked"]:
        return []
    return losses[:1]
