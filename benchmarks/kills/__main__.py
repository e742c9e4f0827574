"""Kill every party of a run under load, again and again, run after run.

    python -m benchmarks.kills [--kills 200] [--postgresql] [--seed 1] [--json]

A curator, four referee processes on one database, of which two may drive, a host of 36 people, and four people with an
agent process each carry out run after run of six questions, beside 200 individuals who enrol, poll and report at
whichever process answers. All the while one of the processes that are at work, chosen at random, is killed without a
word at a random moment, and started again. With ``--postgresql`` a server of Debian's package, which this starts, is
under fire, too: its first process, which is started again, or one of its others, upon which the server ends all others
and recovers. Otherwise the referees share a SQLite file. After every run what was acknowledged, what is stored and what
the audit counts must be one number, the curator's charges must be the operations of the transcript, and that must
verify. Each kill is a line on standard error: seconds, party, and how many reports of individuals were
acknowledged by then. 200 take a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.kills.once import Killed, once
from benchmarks.kills.postgres import Server, binaries
from common.core.errors import BadInput


def campaign(kills: int, postgresql: bool, seed: int) -> dict[str, Any]:
    """Kill so often, in as many runs as it takes; return the document."""
    chance, runs, left = random.Random(seed), list[Killed](), kills
    with ExitStack() as opened:
        server = None
        if postgresql:
            programs = binaries()
            if programs is None:
                raise BadInput("there is no PostgreSQL server here (Debian: apt-get install postgresql)")
            server = Server(programs)
            opened.callback(server.close)
        while left > 0:
            with tempfile.TemporaryDirectory(prefix="kills-") as name:
                found = once(Path(name), server, chance, left)
            left -= len(found.kills)
            runs.append(found)
            print(f"run {len(runs)}: {_summary(found)}", file=sys.stderr, flush=True)
    return {
        "database": "postgresql" if postgresql else "sqlite",
        "seed": seed,
        "kills": dict(Counter(kill["party"] for found in runs for kill in found.kills)),
        "runs": len(runs),
        "seconds": round(sum(found.seconds for found in runs)),
        "ended": dict(Counter(found.status for found in runs)),
        "acknowledged": sum(found.acknowledged for found in runs),
        "stored": sum(found.stored for found in runs),
        "counted": sum(found.counted for found in runs),
        "wrong": [problem for found in runs for problem in found.wrong],
        "log": [{"run": number, **kill} for number, found in enumerate(runs, 1) for kill in found.kills],
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = campaign(chosen.kills, chosen.postgresql, chosen.seed)
    if chosen.json:
        print(json.dumps(found))
    else:
        parties = ", ".join(f"{name} {count}" for name, count in sorted(found["kills"].items()))
        print(f"{sum(found['kills'].values())} kills in {found['runs']} runs: {parties}")
        print(f"{found['acknowledged']:,} acknowledged, {found['stored']:,} stored, {found['counted']:,} counted")
    if found["wrong"]:
        raise SystemExit("\n".join(found["wrong"]))


def _summary(found: Killed) -> str:
    counts = f"{found.acknowledged} acknowledged, {found.stored} stored, {found.counted} counted"
    wrong = "".join(f"; {problem}" for problem in found.wrong)
    return f"{found.status} after {len(found.kills)} kills in {found.seconds:g} s, {counts}{wrong}"


if __name__ == "__main__":
    main()
