"""Fuzz every decoder and every service, count what became of the inputs, and keep what must not happen.

    python -m benchmarks.fuzz [--count 1000000] [--seed 1] [--seconds S] [--json]

Nineteen of twenty inputs go to the decoders, the rest to the services. Exit status 1 if there is a finding: an error
that is none of the declared ones, an answer of 500 or more, an input that takes more than 2 s or 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fuzz.campaign import fuzz_decoders
from benchmarks.fuzz.corpus import collected
from benchmarks.fuzz.decoders import decoders
from benchmarks.fuzz.oblivious import oblivious_decoders
from benchmarks.fuzz.services import fuzz_services, targets

SHARE = 0.05
"""Of the inputs that go to the services."""
KEPT = 50
"""Findings that are shown, at most."""


def campaign(count: int, seed: int, seconds: float = float("inf")) -> dict[str, Any]:
    """Return what became of so many inputs.

    Parameters
    ----------
    seconds
        After which decoders and services together end, if that comes first.
    """
    began = time.monotonic()
    with _silent(), tempfile.TemporaryDirectory(prefix="fuzz-") as place, collected(Path(place) / "run") as corpus:
        everything = [*decoders(corpus, Path(place)), *oblivious_decoders(corpus)]
        read, findings = fuzz_decoders(everything, round(count * (1 - SHARE)), seed, seconds / 2)
        asked, more = fuzz_services(targets(corpus, Path(place)), round(count * SHARE), seed, seconds / 2)
    rows = {**read, **asked}
    return {
        "seed": seed,
        "inputs": sum(counts.inputs for counts in rows.values()),
        "findings": [asdict(finding) for finding in (findings + more)[:KEPT]],
        "found": len(findings) + len(more),
        "seconds": round(time.monotonic() - began, 1),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "rows": {name: counts.document() for name, counts in rows.items()},
    }


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing in the block: a bug is counted here, and not logged a thousand times."""
    log = logging.getLogger("tandem")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def table(document: dict[str, Any]) -> str:
    """Return the counts as lines."""
    lines = [f"{'':26}{'inputs':>9}{'read':>9}{'refused':>9}{'slowest ms':>12}"]
    for name, row in document["rows"].items():
        refused = sum(row["refused"].values())
        lines.append(f"{name:26}{row['inputs']:>9,}{row['read']:>9,}{refused:>9,}{row['slowest_ms']:>12.1f}")
    lines.append(f"{document['inputs']:,} inputs in {document['seconds']:.0f} s: {document['found']} findings")
    return "\n".join([*lines, *(f"{finding['where']}: {finding['what']}" for finding in document["findings"])])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs of all decoders and services together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds at the latest")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    document = campaign(options.count, options.seed, options.seconds)
    print(json.dumps(document, indent=1) if options.json else table(document))
    return 1 if document["found"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
