"""Print the paper's tables of private domain adaptation beside ours, and draw its figures.

    python -m benchmarks.adaptation [--json] [--table N] [--figures] [--measure] [--data DIR] [--splits 10]

Raw results are in DIR/adaptation.jsonl, one line a split; the tables are a summary of them. Without results, or with
--measure, what is missing is measured (about half an hour of one core in all), so the same command goes on where it
was stopped. That needs the data sets: --data, else TANDEM_DATA, else ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.adaptation import figures
from benchmarks.adaptation.measuring import measure, missing
from benchmarks.adaptation.paper import NOT_AT_HAND
from benchmarks.adaptation.points import SPLITS, points
from benchmarks.adaptation.tables import TABLES, classifies, needs, scores, table
from benchmarks.figures.store import ResultFile, Row
from common.core.errors import BadInput, TandemError

T = TypeVar("T")
RESULTS = Path(__file__).parent.parent / "results"
SHELF = Path(__file__).parent.parent.parent.parent / "shared" / "data"


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for, print the tables, draw the figures."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.adaptation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the tables' rows as one JSON list")
    parser.add_argument("--table", type=int, choices=sorted(TABLES), metavar="N", help="only this table of the paper")
    parser.add_argument("--figures", action="store_true", help="measure the figures as well, and draw them")
    parser.add_argument("--measure", action="store_true", help="measure what is missing")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of each point, or runs of a figure's")
    parser.add_argument("--data", type=Path, metavar="DIR", help="of the public data sets")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of results and pictures")
    given = parser.parse_args(arguments)
    try:
        return _work(given)
    except TandemError as error:
        print(error.detail, file=sys.stderr)
        return 1


def _work(given: argparse.Namespace) -> int:
    file = ResultFile(given.output / "adaptation.jsonl")
    numbers = (given.table,) if given.table else tuple(TABLES)
    if given.measure or not file.rows():
        wanted = tuple(point for point in points() if any(needs(number, point) for number in numbers))
        _measure(file, measure, missing(wanted, file.rows(), given.splits), given.data)
    if given.figures:
        _measure(file, figures.measure, figures.missing(file.rows(), given.splits), given.data)
        figures.draw(file.rows(), given.output)
    measured = scores(row for row in file.rows() if not figures.holds(row))
    rows = [row for number in numbers for row in table(number, measured)]
    if given.json:
        print(json.dumps(rows, allow_nan=False))
    else:
        _print(rows)
    return 0


def _measure(
    file: ResultFile, work: Callable[[T, int, Path], Row], tasks: list[tuple[T, int]], data: Path | None
) -> None:  # fmt: skip
    """Measure one after the other; each result is kept as soon as it is there."""
    if not tasks:
        return
    shelf = _shelf(data)
    with file.writing() as append, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("adaptation", total=len(tasks))
        for what, number in tasks:
            row = work(what, number, shelf)
            append(row)
            progress.update(bar, advance=1, description=f"{row.point} took {row.seconds:.1f} s")


def _shelf(given: Path | None) -> Path:
    """Return the directory of the data sets.

    Raises:
        BadInput: If there is none.
    """
    shelf = given or Path(os.environ.get("TANDEM_DATA", SHELF))
    if not shelf.is_dir():
        raise BadInput(
            f"the public data sets are not at {shelf}: give their directory with --data or TANDEM_DATA "
            "(docs/adaptation-tables.md says what it must hold); committed results need none"
        )
    return shelf


def _print(rows: list[dict[str, Any]]) -> None:
    console = Console()
    notes = list(dict.fromkeys(row["note"] for row in rows if row["note"]))
    for number in dict.fromkeys(row["table"] for row in rows):
        unit = "accuracy, %" if classifies(int(number)) else "squared error, 1 for training on the target"
        drawn = Table("data set", "method", "here", "paper", "note", title=f"Table {number}: {unit}")
        for row in rows:
            if row["table"] == number:
                mark = str(notes.index(row["note"]) + 1) if row["note"] else ""
                drawn.add_row(row["dataset"], row["method"], _number(row, ""), _number(row, "paper_"), mark)
        console.print(drawn)
    for number, note in enumerate(notes, start=1):
        console.print(f"{number}: {note}", highlight=False)
    console.print(f"Not at hand, so left out: {', '.join(NOT_AT_HAND)}.")


def _number(row: dict[str, Any], whose: str) -> str:
    mean, deviation = row[f"{whose}mean"], row[f"{whose}deviation"]
    digits = 2 if classifies(int(row["table"])) else 3
    return "" if mean is None else f"{mean:.{digits}f} ± {deviation:.{digits}f}"


if __name__ == "__main__":
    sys.exit(main())
