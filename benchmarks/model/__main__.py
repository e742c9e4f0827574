"""Go through every state of the protocol's model at several sizes (docs/model.md).

``python -m benchmarks.model`` prints for each size how many states there are, and that all invariants hold in all of
them; the last takes minutes. ``--quick`` takes the first sizes alone. ``--without RULE`` breaks a rule, and prints the
shortest way to a state in which something does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import fields

from benchmarks.model.rules import SOUND, Rules, Size
from benchmarks.model.search import search

QUICK = (Size(pauses=0, rogue=False), Size(crashes=0), Size(agents=1))
SIZES = (*QUICK, Size(rogue=False), Size(agents=1, pauses=2), Size(agents=1, operations=2), Size(questions=2, pauses=0))
RULES = tuple(rule.name for rule in fields(Rules))


def row(size: Size) -> str:
    """Return what a search of all states has found, in one line."""
    began = time.perf_counter()
    found = search(size)
    seconds = time.perf_counter() - began
    told = ", ".join(f"{field.name} {getattr(size, field.name)!s}" for field in fields(size))
    return (
        f"{told}: {found.states:,} states, {found.steps:,} steps, the farthest after {found.depth}; {seconds:.0f} s; "
        f"{found.violated or 'all invariants hold'}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Search; the exit status is 1 if something does not hold."""
    parser = argparse.ArgumentParser(description="Go through every state of the protocol's model.")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes alone")
    parser.add_argument("--without", choices=RULES, help="break this rule, and print what happens then")
    given = parser.parse_args(arguments)
    if given.without:
        found = search(Size(), SOUND.without(given.without), symmetry=False)
        print(found)
        return int(found.violated is not None)
    failed = False
    for size in QUICK if given.quick else SIZES:
        line = row(size)
        print(line, flush=True)
        failed |= not line.endswith("all invariants hold")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
