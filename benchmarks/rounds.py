"""What does a round take beside its computing? The same run with all parties in one process, and over HTTP.

    python -m benchmarks.rounds [--rounds 200] [--json]

The first rounds of ``ball-paper-nonprivate`` with one seed: each is a call of the learner, a question to the agents of
one host, and a reweigh. In one process the parties compute the same, store the same and sign the same; what a round
takes longer as real processes is the way over HTTP. Of the exchanges with the curator also the referee's own share is
printed: everything in an exchange but the curator's work, that is request, checks, signatures and the transaction.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common.scenario.loading import load
from common.scenario.scenario import ResolvedScenario
from curator.curator import Curator
from deploy.checking import checked
from deploy.deployment import Embedded, RunOutput
from deploy.processes import Processes

SEED = 1


@contextmanager
def timed_curator() -> Iterator[list[float]]:
    """Write down how long every operation of a curator in this process takes, seconds."""
    took: list[float] = []
    perform = Curator.perform

    def measured(self: Curator, signed: Any) -> Any:
        began = time.perf_counter()
        try:
            return perform(self, signed)
        finally:
            took.append(time.perf_counter() - began)

    Curator.perform = measured  # type: ignore[method-assign]  # what is timed stays the real method
    try:
        yield took
    finally:
        Curator.perform = perform  # type: ignore[method-assign]  # put back as it was


def questions(finished: RunOutput) -> int:
    """Return how many questions a run asked."""
    return sum(json.loads(line)["kind"] == "question" for line in finished.transcript.splitlines())


def compare(chosen: ResolvedScenario) -> dict[str, Any]:
    """Carry a scenario out both ways, and return what a round takes."""

    def quiet(text: str, numbers: dict[str, float]) -> None:
        pass

    with tempfile.TemporaryDirectory(prefix="rounds-") as name:
        Embedded(Path(name) / "compiled").run(chosen, SEED, "compiled", quiet)  # loops are compiled or loaded here
        with timed_curator() as took:
            embedded = Embedded(Path(name) / "embedded").run(chosen, SEED, "rounds", quiet)
        over_http = Processes(Path(name) / "processes").run(chosen, SEED, "rounds", quiet)
    rounds = questions(embedded)
    if questions(over_http) != rounds:
        raise SystemExit("the two runs differ: they are no measure of each other")
    here, there = embedded.result["seconds"], over_http.result["seconds"]
    return {
        "rounds": rounds,
        "exchanges": len(took),
        "embedded_ms": round(1e3 * here["total"] / rounds, 2),
        "over_http_ms": round(1e3 * there["total"] / rounds, 2),
        "http_ms": round(1e3 * (there["total"] - here["total"]) / rounds, 2),
        "exchange_ms": round(1e3 * (here["curator"] - sum(took)) / len(took), 3),
    }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    chosen = checked(load("ball-paper-nonprivate", [f"curator.rounds={wanted.rounds}"]))
    found = compare(chosen)
    if wanted.json:
        print(json.dumps(found))
        return
    print(f"{found['rounds']} rounds, {found['exchanges']} exchanges with the curator")
    print(
        f"a round: {found['embedded_ms']:g} ms in one process, {found['over_http_ms']:g} ms over HTTP, "
        f"{found['http_ms']:g} ms more"
    )
    print(f"the referee's own share of an exchange: {found['exchange_ms']:g} ms")


if __name__ == "__main__":
    main()
