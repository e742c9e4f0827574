"""Play many histories of the real parties under seeded faults (docs/faults.md).

``python -m benchmarks.histories`` plays 10,000 of them, or ``--count``, and prints a line for each seed after which
something does not hold, and how the runs ended. ``--seed S`` plays one, and prints all that happened in it.
``--hostile`` has a hostile player in each (:mod:`benchmarks.hostile`): in one of :data:`RUNS` it is a whole run, in the
others one party's requests to the hostile one. ``--bug NAME`` puts a bug in the place of the real code
(:mod:`benchmarks.histories.bugs`), and ends with the first history that finds it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from benchmarks.histories.history import History, play
from benchmarks.hostile import exchanges, runs
from benchmarks.hostile.exchanges import Played


def show(history: History) -> str:
    """Return what does not hold after a history, in one line, with the command that repeats it."""
    return f"seed {history.seed}: {'; '.join(history.broken)}  (python -m benchmarks.histories --seed {history.seed})"


RUNS = 100
"""One of so many histories with a hostile player is a whole run."""


def hostile(seed: int) -> Played:
    """Play one history with a hostile player."""
    return runs.play(seed // RUNS) if seed % RUNS == 0 else exchanges.play(seed)


def count_hostile(first: int, count: int, seconds: float) -> dict[str, Any]:
    """Play histories with a hostile player; return how many, what their parties' steps ended with, and what is broken.

    Args:
        seconds: After which it ends, if that comes first.
    """
    began, broken = time.perf_counter(), []
    played, ends = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for seed in range(first, first + count):
        if time.perf_counter() - began > seconds:
            break
        history = hostile(seed)
        played[history.seat] += 1
        ends[history.seat].update(history.ends)
        if history.broken:
            broken.append({"seed": seed, "broken": history.broken})
            print(f"seed {seed}: {'; '.join(history.broken)}", file=sys.stderr, flush=True)
    return {
        "first": first,
        "histories": sum(played.values()),
        "seconds": round(time.perf_counter() - began),
        "broken": broken,
        "played": dict(played),
        "ends": {seat: dict(found.most_common()) for seat, found in ends.items()},
    }


def main(arguments: list[str] | None = None) -> int:
    """Play them; the exit status is 1 if something does not hold."""
    parser = argparse.ArgumentParser(description="Play histories of the real parties under seeded faults.")
    parser.add_argument("--count", type=int, default=10000, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one alone, and print what happened in it")
    parser.add_argument("--hostile", action="store_true", help="with a hostile player in each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="with --hostile: end after so many seconds")
    parser.add_argument("--bug", help="put this bug in the place of the real code, and find it")
    given = parser.parse_args(arguments)
    if given.bug is not None:
        return _find(given.bug, given.count)
    if given.hostile and given.seed is None:
        document = count_hostile(given.first, given.count, given.seconds)
        print(json.dumps(document, indent=1))
        return int(bool(document["broken"]))
    if given.hostile:
        played = hostile(given.seed)
        print("\n".join([played.seat, *played.log, f"steps: {', '.join(played.ends)}"]))
        print("; ".join(played.broken) or f"seed {given.seed}: all that must hold holds")
        return int(bool(played.broken))
    return _play_faults(given)


def _find(name: str, count: int) -> int:
    """Play histories with a bug until one finds it."""
    from benchmarks.histories.bugs import BUGS, found_within

    bugs = {bug.__name__: bug for bug in BUGS}
    if name not in bugs:
        print(f"no bug has the name {name!r}; there are {', '.join(bugs)}", file=sys.stderr)
        return 2
    history = found_within(bugs[name], count)
    print(f"seed {history.seed}: {'; '.join(history.broken)}" if history else f"{count} histories do not find it")
    return int(history is not None)


def _play_faults(given: argparse.Namespace) -> int:
    """Play histories under faults alone."""
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
