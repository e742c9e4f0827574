"""How many people are needed, by the paper's bounds and by tight ones? Each tight number is run to its halt.

    python -m benchmarks.people [--runs 100] [--points NAME ...] [--output DIR] [--picture FILE] [--json]

Results are kept in DIR/people.jsonl, one line a run; what is there is not run again, so the same command goes on where
it was stopped. --draw-only runs nothing. docs/people.md says what is compared, and why.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.figures.store import ResultFile
from benchmarks.people import measuring
from benchmarks.people.plots import draw
from benchmarks.people.settings import APPENDIX_D, SEARCHED, Need, Setting, appendix_d, ladder, settings
from benchmarks.people.table import tables
from common.core.errors import TandemError

RESULTS = Path(__file__).parent.parent / "results"


def points() -> tuple[str, ...]:
    """Return the names of everything that is run."""
    names = (setting.name for setting in settings())
    return (*(f"appendix-d/{n}" for n in reversed(SEARCHED)), *names, "literal")


def report(file: ResultFile) -> dict[str, Any]:
    """Bring together the formulas and the runs that are in the file."""
    rows = file.rows()
    grouped = {point: [row for row in rows if row.point == point] for point in points()}
    found = {point: measuring.summary(point, runs) for point, runs in grouped.items() if runs}
    searched = [entry for point, entry in found.items() if point.startswith("appendix-d/")]
    n = measuring.smallest(searched)
    lines = list(settings())
    if n is not None:
        title = "Appendix D, private"
        lines.insert(0, Setting(f"appendix-d/{n}", title, APPENDIX_D.paper(), appendix_d(n)))
    return {
        "smallest": n,
        "table": [_line(setting, found.get(setting.name)) for setting in lines],
        "search": searched,
        "literal": found.get("literal"),
        "ladder": [] if n is None else [{"step": step, "n": people} for step, people in ladder(n)],
    }


def _line(setting: Setting, run: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "setting": setting.name,
        "title": setting.title,
        "paper": _need(setting.paper),
        "tight": _need(setting.need),
        "run": run,
    }


def _need(need: Need) -> dict[str, int]:
    agents = need.answers * need.rounds
    return {"n": need.people, "answers": need.answers, "rounds": need.rounds, "agents": agents}


def _measure(file: ResultFile, chosen: list[str], runs: int) -> None:
    done = {(row.point, row.repetition) for row in file.rows()}
    wanted = [(point, number) for point in chosen for number in range(runs) if (point, number) not in done]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        file.writing() as keep,
        Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress,
    ):
        bar = progress.add_task("people", total=len(wanted))
        for point, number in wanted:
            progress.update(bar, description=point)
            keep(measuring.run(point, number))
            progress.advance(bar)


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, draw and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.people", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="of each point")
    parser.add_argument("--points", nargs="+", metavar="NAME", help=f"only these: {', '.join(points())}")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of the results")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="default: DIR/people.svg")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--draw-only", action="store_true")
    given = parser.parse_args(arguments)
    unknown = set(given.points or ()) - set(points())
    if unknown:
        parser.error(f"no point is called {sorted(unknown)[0]!r}; there are: {', '.join(points())}")
    if given.runs < 1:
        parser.error(f"--runs must be at least 1, found {given.runs}")
    file = ResultFile(given.output / "people.jsonl")
    try:
        if not given.draw_only:
            _measure(file, given.points or list(points()), given.runs)
        found = report(file)
    except TandemError as error:
        print(error.detail, file=sys.stderr)
        return 1
    draw(found, given.picture or given.output / "people.svg")
    if given.json:
        print(json.dumps(found, allow_nan=False))
    else:
        for table in tables(found):
            Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
