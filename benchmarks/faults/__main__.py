"""What the machine does to real parties, in the middle of a run: disks, clocks, descriptors.

    python -m benchmarks.faults [--only PATTERN] [--json]

A witness, a curator, a referee and a host, as processes that speak HTTP over loopback, each with a small disk and a
clock of its own, carry out a run of 24 questions. Meanwhile one fault after the other strikes one party, lasts 1.5
seconds, and is gone: its disk is full, or takes nothing new (read-only); its clock jumps by an hour or a day, forward
or back, and then to the true time again; its process may open nothing more. After each the run must go on; it must end
as runs do; what is stored is counted; each operation is charged once; no process has died.

Then one person's agent (``local-agent answer``), and the relay that it asks through, are struck when it enrols, and
when it is asked: it goes on, or ends with one line and the same command goes on once the fault is gone. So are an
issuer while somebody gets a credential, and a curator that collects while somebody contributes; these and the relay
are killed, too. Each person must have one answer, credential or record in the end.

It needs root, for disks to be mounted, a C compiler, and libfaketime (Debian: ``apt-get install faketime``). Fifteen
minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.faults import person, services
from benchmarks.faults.deployment import PARTIES
from benchmarks.faults.kinds import LASTING
from benchmarks.faults.machines import clock_libraries
from benchmarks.faults.once import Struck, once
from common.core.errors import BadInput


def strike(only: str = "") -> dict[str, Any]:
    """Strike every party with every fault whose words contain some text, in as many runs as that takes."""
    if clock_libraries(Path(tempfile.gettempdir())) is None:
        raise BadInput("there is no libfaketime or no C compiler here (Debian: apt-get install faketime gcc)")

    def wanted(faults: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(kind, party) for kind, party in faults if only in f"{kind} {party}"]

    left = wanted((kind, party) for kind in LASTING for party in PARTIES)
    runs: list[Struck] = []
    while left:
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            found = once(Path(name), left)
        _keep(runs, found)
        left = left[len(found.faults) :]
    for kind, struck in wanted(person.STRIKES):
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            _keep(runs, person.person(Path(name), kind, struck))
    for service in services.SERVICES:
        kinds = [kind for kind, at in wanted(services.STRIKES) if at == service]
        if kinds:
            with tempfile.TemporaryDirectory(prefix="faults-") as name:
                _keep(runs, services.visit(Path(name), service, kinds))
    return {
        "runs": len(runs),
        "answered": sum(found.answered for found in runs),
        "counted": sum(found.counted for found in runs),
        "ended": [found.status for found in runs],
        "wrong": [problem for found in runs for problem in found.wrong],
        "faults": [fault for found in runs for fault in found.faults],
    }


def _keep(runs: list[Struck], found: Struck) -> None:
    """Keep what came of a run, and say so."""
    runs.append(found)
    for fault in found.faults:
        print(json.dumps({"run": len(runs), **fault}), file=sys.stderr, flush=True)
    print(f"run {len(runs)}: {found.status}; {'; '.join(found.wrong) or 'all holds'}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="text that kind and party contain, such as 'full curator'")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = strike(chosen.only)
    if chosen.json:
        print(json.dumps(found))
    else:
        numbers = f"{found['answered']} stored, {found['counted']} counted"
        print(f"{len(found['faults'])} faults in {found['runs']} runs: {numbers}")
    if found["wrong"]:
        raise SystemExit("\n".join(found["wrong"]))


if __name__ == "__main__":
    main()
