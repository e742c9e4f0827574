"""Is a run over a cluster the same run, also when a worker of it is killed? A record for whoever asks.

    python -m benchmarks.cluster [--scenario ball] [--workers 2] [--seed 1] [--set KEY=VALUE] [--json]

Runs a scenario embedded, once with the whole sample in this process and once with a shard in each of several Ray
workers on this machine. In the second run one worker's process is killed (SIGKILL) after the first round. Printed are
what both curators released, whether that is the same, and what the second one logged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common.scenario import loading
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from deploy.deployment import Embedded


def run(chosen: ResolvedScenario, seed: int, kill: bool) -> dict[str, Any]:
    """Run a scenario to its end; return what the curator released, the answer, and the progress notes."""
    began = time.perf_counter()
    lines: list[str] = []
    victims: list[int] = []

    def write(text: str) -> None:
        lines.append(f"{time.perf_counter() - began:7.2f} s  {text}")

    def on_progress(text: str, numbers: dict[str, float]) -> None:
        write(text)
        if found := re.search(r"is process (\d+)", text):
            victims.append(int(found[1]))
        elif numbers and victims and kill:
            write(f"process {victims[-1]} is killed now")
            os.kill(victims[-1], signal.SIGKILL)
            victims.clear()

    with tempfile.TemporaryDirectory() as folder:
        finished = Embedded(Path(folder)).run(chosen, seed, "cluster", on_progress)
    entries = [json.loads(line) for line in finished.transcript.splitlines()]
    releases = [entry["body"]["release"]["message"]["result"] for entry in entries if "release" in entry["body"]]
    keys = ("status", "iterations", "answer")
    seconds = time.perf_counter() - began
    return {"releases": releases, **{key: finished.result[key] for key in keys}, "log": lines, "seconds": seconds}


def compare(scenario: str, workers: int, seed: int, overrides: list[str]) -> dict[str, Any]:
    """Run with and without workers, and compare."""
    alone, spread = (
        run(resolve(loading.load(scenario, [*overrides, f"curator.storage.workers={count}"])), seed, count > 0)
        for count in (0, workers)
    )
    same = all(alone[key] == spread[key] for key in ("releases", "status", "iterations", "answer"))
    return {"same": same, "in one process": alone, "in workers": spread}


def main() -> None:
    """Run, print, and exit with 1 if the runs differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="ball")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = compare(given.scenario, given.workers, given.seed, given.set)
    if given.json:
        print(json.dumps(found))
    else:
        for name in ("in one process", "in workers"):
            one = found[name]
            print(f"== {name}: {one['status']} after {one['iterations']} rounds, {one['seconds']:.1f} s")
            print("\n".join(one["log"]))
            print("released:")
            for release in one["releases"]:
                print("  " + json.dumps(release))
        print("the same, bit for bit" if found["same"] else "DIFFERENT")
    sys.exit(not found["same"])


if __name__ == "__main__":
    main()
