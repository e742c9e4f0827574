"""A command that a person runs, as often as it takes; and what is wrong about how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.faults.machines import PATIENCE, Machines
from common.core.errors import RunFailed


class Command:
    """A command of one person.

    Args:
        machines: Where it runs.
        name: The person's, for whom there is a clock.
        arguments: ``python -m`` arguments.
    """

    def __init__(self, machines: Machines, name: str, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", *arguments]
        self._environment = {**os.environ, **machines.environment(name)}
        self._log = machines.folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        """All that it has said since it was started last."""
        return self._log.read_text("utf-8")

    def start(self) -> None:
        """Start it."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def ended(self, says: str = "", seconds: float = PATIENCE) -> bool:
        """Wait until it has ended, or has said something; return whether it has ended.

        Raises:
            RunFailed: If it does neither for so long.
        """
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            ended = self.process is None or self.process.poll() is not None
            if ended or (says and says in self.said):
                return ended
            time.sleep(0.05)
        raise RunFailed(f"the person's command does nothing: {self.said}")

    def succeeds(self, seconds: float = PATIENCE) -> bool:
        """Wait for so long, and return whether it has ended and done its work."""
        try:
            return self.process is not None and self.process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False

    def stop(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def unclear(self) -> list[str]:
        """Say what is wrong about how it ended without having done its work: it should say in one line why."""
        said = [line for line in self.said.splitlines() if line.strip()]
        status = None if self.process is None else self.process.wait()
        if status == 0 or "Traceback" in self.said or not said:
            return [f"ended with {status}, and said: {self.said}"]
        return []
