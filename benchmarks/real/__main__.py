"""What the ways to an answer are worth on real people who differ from the volunteers.

    python -m benchmarks.real [--shift NAME]... [--method NAME]... [--epsilon E]... [--splits 10] [--agents N]...
                              [--jobs J] [--data DIR] [--output FILE] [--again] [--json]
    python -m benchmarks.real --page benchmarks/results/real.md --pictures docs/pictures/real [--output FILE]

Every split draws the volunteers, the agents and a third of the population, by whom answers are judged, anew. Printed is
the mean 0/1 loss on the judges with a 95% interval over splits. The people are public data sets'; noise is seeded.

Rows are kept in FILE, one JSON object a line, as soon as each is there. What is there with the same people, splits and
settings is not measured again, so the same command goes on where it was stopped; after a change of code --again
measures it anew, and the last row counts. --page writes the page from FILE, if the present code reproduces its rows:
settings of all, and the first split of those at epsilon 1, which takes some minutes. Exit status 1 if it does not.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.figures.store import JsonLines
from benchmarks.real.datasets import SHELF
from benchmarks.real.methods import METHODS
from benchmarks.real.page import largest, write
from benchmarks.real.provenance import unlike
from benchmarks.real.running import Row, Task, key, measure, opened
from benchmarks.real.shifts import SHIFTS
from common.core.errors import TandemError
from common.core.machine import processors

RESULTS = Path(__file__).parent.parent / "results" / "real.jsonl"
EPSILONS = (0.5, 1.0, 2.0)


def latest(rows: list[Row]) -> list[Row]:
    """Return the last row of each key, in the order of the first ones."""
    return list({key(row): row for row in rows}.values())


def tasks(given: argparse.Namespace, there: list[Row]) -> tuple[list[Task], list[tuple[object, ...]]]:
    """Return what is to be measured, and the keys of all rows that are asked for."""
    known = {key(row) for row in there}
    missing: list[Task] = []
    wanted: list[tuple[object, ...]] = []
    for shift in SHIFTS:
        if given.shift and shift.name not in given.shift:
            continue
        if not (given.data / shift.data).is_dir():
            print(f"{shift.name}: left out, there is no {given.data}/{shift.data}", file=sys.stderr)
            continue
        for most in given.agents or [None]:
            for name in given.method or METHODS:
                epsilons = tuple(given.epsilon or EPSILONS)
                groups = [(epsilon,) for epsilon in epsilons] if METHODS[name].private else [epsilons]
                for group in groups:
                    task = Task(shift.name, name, group, given.splits, most, given.data)
                    keys = {row["epsilon"]: key(row) for row in opened(task)}
                    wanted += keys.values()
                    left = tuple(epsilon for epsilon in group if given.again or keys[epsilon] not in known)
                    if left:
                        missing.append(Task(shift.name, name, left, given.splits, most, given.data))
    return missing, wanted


def main(arguments: list[str] | None = None) -> int:
    """Measure and print, or write the page."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.real", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shift", action="append", choices=[shift.name for shift in SHIFTS])
    parser.add_argument("--method", action="append", choices=list(METHODS))
    parser.add_argument("--epsilon", action="append", type=float, help="on both sides (default: 0.5, 1 and 2)")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--agents", action="append", type=int, help="at most so many (default: all that there are)")
    parser.add_argument("--jobs", type=int, default=processors(), help="processes (default: one a core)")
    parser.add_argument("--data", type=Path, default=SHELF, help="where data sets lie")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help="of the rows")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page from the rows that are there")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="of the page's pictures")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if min(given.splits, given.jobs, *(given.agents or [1])) < 1:
        parser.error("--splits, --jobs and --agents must be at least 1")
    if (given.page is None) != (given.pictures is None):
        parser.error("--page and --pictures belong together: the page shows the pictures")
    file = JsonLines(given.output)
    try:
        if given.page is not None:
            rows = latest(file.values())
            wrong = unlike(largest(rows), given.data, given.jobs)
            if wrong:
                print(*wrong, f"{len(wrong)} rows: measure them anew with --again; no page is written", sep="\n")
                return 1
            write(rows, given.page, given.pictures)
            return 0
        missing, wanted = tasks(given, file.values())
        with file.appending() as append:

            def keep(row: Row) -> None:
                append(row)
                print(f"{_line(row)}; {_took(row)}", file=sys.stderr, flush=True)

            measure(missing, given.jobs, keep)
        found = {key(row): row for row in file.values()}
    except TandemError as error:
        print(error.detail, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"stopped: {given.output} has what was measured, the same command goes on there", file=sys.stderr)
        return 130
    rows = [found[name] for name in wanted]
    if given.json:
        print(json.dumps([row for row in rows if row["splits"]], allow_nan=False))
    else:
        print(*map(_line, rows), sep="\n")
    return 0


def _line(row: Row) -> str:
    who = f"{row['shift']:18} eps {row['epsilon']:<4g} N {row['agents']:<7} {row['method']:18}"
    if not row["splits"]:
        return f"{who} refused: {row['refused']}"
    between = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}, "
    return f"{who} {row['mean']:.4f} ({between}{row['splits']} splits)"


def _took(row: Row) -> str:
    return f"{row['plan_seconds']:.1f} s to plan, {row['split_seconds']:.2f} s a split"


if __name__ == "__main__":
    sys.exit(main())
