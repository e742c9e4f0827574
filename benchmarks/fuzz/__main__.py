"""Fuzz every decoder and every service, count what became of the inputs, and keep what must not happen.

    python -m benchmarks.fuzz [--count 1000000] [--seed 1] [--seconds S] [--json]

Nineteen of twenty inputs go to the decoders, the rest to the services, and one of a hundred is a run folder; with
``--only answers`` all are answers of peers to a client, with ``--only folders`` all are run folders. Exit status 1 if
there is a finding: an error that is none of the declared ones, an answer of 500 or more, an input that takes more than
2 s or 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fuzz.answers import answer_decoders
from benchmarks.fuzz.campaign import Counts, Finding, fuzz_decoders, silent
from benchmarks.fuzz.corpus import collected
from benchmarks.fuzz.decoders import decoders
from benchmarks.fuzz.folders import Folders, fuzz_folders, run_folder
from benchmarks.fuzz.oblivious import oblivious_decoders
from benchmarks.fuzz.services import fuzz_services, targets
from benchmarks.histories.world import in_memory

SHARE, FOLDERS = 0.05, 0.01
"""Of the inputs that go to the services, and that are run folders."""
PARTS = ("answers", "folders")
"""What may be tried alone."""
KEPT = 50
"""Findings that are shown, at most."""


def campaign(count: int, seed: int, seconds: float = float("inf"), only: str | None = None) -> dict[str, Any]:
    """Return what became of so many inputs.

    Args:
        seconds: After which all together end, if that comes first.
        only: One of :data:`PARTS`, to which all inputs go.
    """
    began = time.monotonic()
    shares = {"services": SHARE, "folders": FOLDERS, "decoders": 1 - SHARE - FOLDERS}
    if only is not None:
        shares = {"folders" if only == "folders" else "decoders": 1.0}
    rows: dict[str, Counts] = {}
    findings: list[Finding] = []
    with (
        silent(),
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory()) as name,
        collected(Path(name) / "run") as corpus,
    ):
        place = Path(name)
        for part, share in shares.items():
            inputs, most = round(count * share), seconds / len(shares)
            if part == "services":
                read, found = fuzz_services(targets(corpus, place), inputs, seed, most)
            elif part == "folders":
                run = run_folder(corpus, place / "folder" / "run")
                folders = Folders(run, corpus.referee.identity, seed, place / "changed")
                read, found = fuzz_folders(folders, inputs, most, each=1)
                read = {f"folder: {reader}": counts for reader, counts in read.items()}
            else:
                everything = [*answer_decoders(corpus, place)]
                if only is None:
                    everything += [*decoders(corpus, place), *oblivious_decoders(corpus)]
                read, found = fuzz_decoders(everything, inputs, seed, most)
            rows |= read
            findings += found
    return {
        "seed": seed,
        "inputs": sum(counts.inputs for counts in rows.values()),
        "findings": [asdict(finding) for finding in findings[:KEPT]],
        "found": len(findings),
        "seconds": round(time.monotonic() - began, 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "rows": {name: counts.document() for name, counts in rows.items()},
    }


def table(document: dict[str, Any]) -> str:
    """Return the counts as lines."""
    lines = [f"{'':34}{'inputs':>9}{'read':>9}{'refused':>9}{'slowest ms':>12}"]
    for name, row in document["rows"].items():
        refused = sum(row["refused"].values())
        lines.append(f"{name:34}{row['inputs']:>9,}{row['read']:>9,}{refused:>9,}{row['slowest_ms']:>12.1f}")
    lines.append(f"{document['inputs']:,} inputs in {document['seconds']:.0f} s: {document['found']} findings")
    return "\n".join([*lines, *(f"{finding['where']}: {finding['what']}" for finding in document["findings"])])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs of all decoders and services together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds at the latest")
    parser.add_argument("--only", choices=PARTS, help="try these alone")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    document = campaign(options.count, options.seed, options.seconds, options.only)
    print(json.dumps(document, indent=1) if options.json else table(document))
    return 1 if document["found"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
