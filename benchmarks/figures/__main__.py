"""Measure and draw one of the paper's figures.

    python -m benchmarks.figures 2 [--repetitions 50] [--workers 2] [--points NAME ...] [--output DIR] [--json]
        [--procedure tandem|printed|authors]

Results are kept in DIR/figure2.jsonl, one line a repetition; what is there is not measured again, so the same command
goes on where it was stopped. --procedure printed and authors measure what docs/figures.md compares with it, and draw
DIR/figure2-procedures.svg. --draw-only measures nothing. --json prints the summary of each point.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.figures.base import PROCEDURES, Curve, Figure
from benchmarks.figures.plotting import columns
from benchmarks.figures.running import missing, run
from benchmarks.figures.store import ResultFile, Row
from benchmarks.figures.summary import grouped, summaries, table
from common.core.errors import TandemError

MODULES = {number: f"benchmarks.figures.figure{number}" for number in (1, 2, 3)}
RESULTS = Path(__file__).parent.parent / "results"


def main(arguments: list[str] | None = None, modules: Mapping[int, str] = MODULES) -> int:
    """Measure, draw and print the figure of the module with the given number."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", type=int, choices=sorted(modules), help="which figure of Kohen & Sheffet")
    parser.add_argument("--repetitions", type=int, help="of each point")
    parser.add_argument("--procedure", choices=PROCEDURES, default="tandem")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--points", nargs="+", metavar="NAME", help="only these points of the grid")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of results and pictures")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--draw-only", action="store_true")
    given = parser.parse_args(arguments)
    figure: Figure = importlib.import_module(modules[given.number]).FIGURE
    known = figure.points_of(given.procedure)
    unknown = set(given.points or ()) - set(known)
    if unknown:
        parser.error(f"no point is called {sorted(unknown)[0]!r}; there are: {', '.join(known)}")
    if given.workers < 1:
        parser.error(f"--workers must be at least 1, found {given.workers}")
    usual = figure.repetitions if given.procedure == "tandem" else 1
    repetitions = usual if given.repetitions is None else given.repetitions
    try:
        return _work(figure, given, given.points or known, repetitions)
    except TandemError as error:
        print(error.detail, file=sys.stderr)
        return 1


def _work(figure: Figure, given: argparse.Namespace, points: tuple[str, ...], repetitions: int) -> int:
    file = ResultFile(given.output / f"{figure.name}.jsonl")
    if not given.draw_only:
        with file.writing() as append:
            tasks = missing(figure, points, repetitions, file.rows(), given.procedure)
            _measure(figure, tasks, given, append)
    rows = file.rows()
    results = grouped(figure, rows)
    if results:
        for ending in ("svg", "png"):
            figure.draw(results, given.output / f"{figure.name}.{ending}")
    if figure.others and any(row.procedure != "tandem" for row in rows):
        curve = figure.others.curve
        drawn: dict[str, dict[str, list[Curve]]] = {
            procedure: {
                point: [curve(measured) for measured in group]
                for point, group in grouped(figure, rows, procedure).items()
                if point in figure.others.points
            }
            for procedure in PROCEDURES
        }
        for ending in ("svg", "png"):
            columns(given.output / f"{figure.name}-procedures.{ending}", drawn, figure.others.level)
    found = summaries(figure, rows, given.procedure)
    if given.json:
        print(json.dumps(found, allow_nan=False))
    else:
        Console().print(table(figure, found))
    return 0


def _measure(
    figure: Figure, tasks: list[tuple[str, int]], given: argparse.Namespace, append: Callable[[Row], None]
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(figure.name, total=len(tasks))

        def keep(row: Row) -> None:
            append(row)
            progress.update(bar, advance=1, description=f"{figure.name}: {row.point} took {row.seconds:.1f} s")

        run(figure, tasks, given.workers, keep, given.procedure)


if __name__ == "__main__":
    sys.exit(main())
