"""Play many histories of the real parties under seeded faults (docs/faults.md).

``python -m benchmarks.histories`` plays 10,000 of them, or ``--count``, and prints a line for each seed after which
something does not hold, and how the runs ended. ``--seed S`` plays one, and prints all that happened in it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from deploy.histories.history import History, play


def show(history: History) -> str:
    """Return what does not hold after a history, in one line, with the command that repeats it."""
    return f"seed {history.seed}: {'; '.join(history.broken)}  (python -m benchmarks.histories --seed {history.seed})"


def main(arguments: list[str] | None = None) -> int:
    """Play them; the exit status is 1 if something does not hold."""
    parser = argparse.ArgumentParser(description="Play histories of the real parties under seeded faults.")
    parser.add_argument("--count", type=int, default=10000, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one alone, and print what happened in it")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        history = play(given.seed)
        print("\n".join([*history.log, f"{history.status}: {history.reason}", f"stored: {history.digest}"]))
        if not history.broken:
            print(f"seed {history.seed}: all that must hold holds")
        if history.broken:
            print(show(history))
        return int(bool(history.broken))
    began, ends, broken = time.perf_counter(), Counter[str](), 0
    for seed in range(given.first, given.first + given.count):
        history = play(seed)
        ends[history.status or "did not end"] += 1
        if history.broken:
            broken += 1
            print(show(history), flush=True)
        if (seed - given.first) % 1000 == 999:
            print(f"{seed - given.first + 1} histories, {broken} broken", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    print(f"{given.count} histories in {seconds:.0f} s, {broken} in which something does not hold; ends: {dict(ends)}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
