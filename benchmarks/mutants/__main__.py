"""Do the fast tests notice when the code that targets.py lists is changed? See docs/mutants.md.

    python -m benchmarks.mutants [--count 200] [--seed 1] [--only PATTERN] [--list] [--retry] [--trusted]
                                [--json]

Each mutant runs in a copy of the tree against the nearest tests of the fast tier that can reach it. Results are kept in
--output, one line a mutant; what is there is not run again, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures.store import ORIGIN, origin
from benchmarks.mutants.reach import Imports
from benchmarks.mutants.running import Trees
from benchmarks.mutants.sampling import Mutant, chosen, equivalents, every_mutant
from benchmarks.mutants.targets import AREAS, ROOT

RESULTS = ROOT / "benchmarks" / "results" / "mutants.jsonl"
WORKERS = 2
FILES = 6
"""Test files for a mutant: the nearest; a mutant that they do not notice counts as a survivor."""
FIRST = 2
"""So many of them run first: most mutants are caught there, and only to import the others takes as long."""
LIMIT = 400.0
"""Seconds that the nearest tests may take; unmutated they take a fraction of it."""


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return what is in the file, the last line of each mutant."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def run(mutants: list[Mutant], output: Path, told: Callable[[str], None], *, trusted: bool = False) -> None:
    """Run mutants, two at a time, and keep what became of each.

    Args:
        trusted: Do not run the tests without any mutant first.

    Raises:
        RuntimeError: If the tests fail without any mutant.
    """
    imports = Imports(ROOT)
    tests = {mutant.target.path: imports.tests(mutant.target.path)[:FILES] for mutant in mutants}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = Trees(Path(folder), imports)
        if not trusted:
            told("running the tests without any mutant ...")
            plain = trees.test(trees.base, sorted({test for nearest in tests.values() for test in nearest}), 10 * LIMIT)
            if plain.outcome != "survived":
                raise RuntimeError(f"without any mutant, {plain.by} fails")
            told(f"they pass, in {plain.seconds:.0f} s")

        def verdict(mutant: Mutant) -> dict[str, Any]:
            nearest, seconds = tests[mutant.target.path], 0.0
            with trees.mutated(mutant.target.path, mutant.source) as tree:
                for part in filter(None, (nearest[:FIRST], nearest[FIRST:])):
                    found = trees.test(tree, part, LIMIT)
                    seconds += found.seconds
                    if found.outcome != "survived":
                        break
            return {
                "key": mutant.key,
                "area": mutant.target.area,
                "file": mutant.target.path.relative_to(ROOT).as_posix(),
                "line": mutant.mutation.line,
                "function": mutant.mutation.function,
                "text": mutant.mutation.text,
                "kind": mutant.mutation.kind,
                "change": mutant.mutation.change,
                "outcome": found.outcome,
                "by": found.by,
                "seconds": round(seconds, 1),
            }

        with ThreadPoolExecutor(WORKERS) as workers, output.open("a") as file:
            waiting = {workers.submit(verdict, mutant): mutant for mutant in mutants}
            try:
                for number, done in enumerate(as_completed(waiting), start=1):
                    row = done.result()
                    file.write(json.dumps({**row, ORIGIN: origin()}) + "\n")
                    file.flush()
                    told(f"{number}/{len(mutants)} {row['outcome']} in {row['seconds']:.0f} s: {waiting[done]}")
            except BaseException:
                trees.stop()
                workers.shutdown(cancel_futures=True)
                raise


def report(mutants: list[Mutant], excluded: list[Mutant], rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Count by area, and list who survived."""
    found = [rows[mutant.key] for mutant in mutants if mutant.key in rows]
    areas = []
    for area in AREAS:
        here = [row for row in found if row["area"] == area]
        survived = sum(row["outcome"] == "survived" for row in here)
        areas.append(
            {
                "area": area,
                "mutants": len(here),
                "caught": len(here) - survived,
                "survived": survived,
                "equivalent": sum(mutant.target.area == area for mutant in excluded),
                "seconds": round(sum(row["seconds"] for row in here), 1),
            }
        )
    caught = sum(area["caught"] for area in areas)
    return {
        "mutants": len(found),
        "caught": caught,
        "share": caught / len(found) if found else None,
        "areas": areas,
        "survivors": [row for row in found if row["outcome"] == "survived"],
    }


def table(found: dict[str, Any]) -> Table:
    """Return the counts as a table."""
    drawn = Table()
    drawn.add_column("area", no_wrap=True)
    for name in ("mutants", "caught", "survived", "equivalent", "seconds"):
        drawn.add_column(name, justify="right")
    for area in (area for area in found["areas"] if area["mutants"] or area["equivalent"]):
        drawn.add_row(*(f"{value:,.0f}" if isinstance(value, float) else str(value) for value in area.values()))
    return drawn


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, and print what became of all."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200, help="of mutants that are not known to change nothing")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument(
        "--only", metavar="PATTERN", help="choose among the mutants whose line in --list has this regex"
    )
    parser.add_argument("--list", action="store_true", help="list what would run, and run nothing")
    parser.add_argument("--retry", action="store_true", help="run survivors again")
    parser.add_argument("--trusted", action="store_true", help="the tests are known to pass without any mutant")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help="of the results")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    known = equivalents()
    every = [mutant for mutant in every_mutant() if re.search(given.only or "", f"{mutant.target.area}: {mutant}")]
    sample = chosen(every, len(every), given.seed)
    equivalent = [mutant for mutant in sample if any(entry.covers(mutant) for entry in known)]
    left_out = {mutant.key for mutant in equivalent}
    sample = [mutant for mutant in sample if mutant.key not in left_out][: given.count]
    if given.list:
        for mutant in sample:
            print(f"{mutant.key} {mutant.target.area}: {mutant}")
        return 0
    rows = read(given.output)
    again = [m for m in sample if m.key not in rows or (given.retry and rows[m.key]["outcome"] == "survived")]
    os.nice(max(0, 10 - os.nice(0)))
    for wish in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # also where a shell that starts it in the background ignores the first
        signal.signal(wish, signal.default_int_handler)
    try:
        if again:
            run(again, given.output, lambda text: print(text, file=sys.stderr, flush=True), trusted=given.trusted)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    found = report(sample, equivalent, read(given.output))
    if given.json:
        print(json.dumps(found, allow_nan=False))
    else:
        Console().print(table(found))
        for row in found["survivors"]:
            print(f"survived: {row['file']}:{row['line']}: {row['change']}")
        if found["share"] is not None:
            print(f"{found['caught']} of {found['mutants']} caught: {found['share']:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
