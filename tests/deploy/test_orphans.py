"""No party outlives the process that started it, however that process ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support import TINY

SETS = [part for override in TINY for part in ("--set", override)]


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(process: int) -> set[int]:
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parent = int(stat.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == process:
                found.add(int(entry))
    return found


def until(condition, seconds=600.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes below /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_deployment_that_ends_takes_its_parties_along(tmp_path, how):
    # Too few people ever come: the run waits until somebody ends it.
    scarce = [*SETS, "--set", "agents.dropout=0.99", "--set", "agents.deadline=1000", "--set", "agents.count=6000"]
    command = [sys.executable, "-m", "referee.cli", "run", "ball", "--seed", "1", "--deployment", "processes"]
    with subprocess.Popen(
        [*command, "--output", str(tmp_path / "run"), *scarce],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        seen: set[int] = set()

        def three() -> bool:
            seen.update(children(run.pid))
            return len(seen) >= 3

        until(three)
        run.send_signal(how)
        run.wait(600)
    until(lambda: not any(alive(child) for child in seen))
