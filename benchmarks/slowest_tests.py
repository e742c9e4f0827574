"""The slowest tests by processor time: their own, and that of processes that they start and wait for.

    python -m benchmarks.slowest_tests [--slow] [--tests 50]   # the quick tests, or the slow ones

The first test that needs a loop bears the time to compile it. The record in ``benchmarks/results/slowest_tests.txt`` is
the output before and after a change.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = "TANDEM_TEST_TIMES"
"""Names the file to which each worker of pytest appends ``seconds<TAB>test`` (``tests/times.py``)."""


def main() -> int:
    """Run one tier of tests and print the slowest; exit status of pytest."""
    parser = argparse.ArgumentParser(description="The slowest tests by processor time.")
    parser.add_argument("--slow", action="store_true", help="the slow tests, not the quick ones")
    parser.add_argument("--tests", type=int, default=50, help="how many are printed (50)")
    chosen = parser.parse_args()
    tier = "slow and not thorough" if chosen.slow else "not slow and not thorough"
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "times"
        # Like make: otherwise each of many processes would compile what none may cache.
        environment = {**os.environ, RECORD: str(record), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-m", tier]
        before = os.times()
        done = subprocess.run([*command, "-p", "tests.times"], env=environment, check=False)
        after = os.times()
        lines = [line.partition("\t") for line in record.read_text("utf-8").splitlines()]
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    times = sorted(((float(seconds), test) for seconds, _, test in lines), reverse=True)
    print(f"\n{len(times)} tests ({tier}): {spent:.0f} s of processor time, collecting and compiling included")
    for seconds, test in times[: chosen.tests]:
        print(f"{seconds:7.1f}  {test.removeprefix('tests/')[:150]}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
