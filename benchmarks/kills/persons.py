"""Agents of single people beside the load: ``local-agent answer``, each started again when it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import local_agent
from local_agent.person.checking import held_receipts

WAITS = "waits for its question"
"""What the command says once it is at work."""
PATIENCE = "600"
"""Seconds that it keeps trying while the referee is away."""


class Person:
    """One person, whose agent is a process of its own, and is started again with the same state if it was killed.

    Args:
        name: Of its state directory.
        url: Of the referee process that it reports to.

    Attributes:
        lives: How often it was started.
        problem: What it ended with, other than its answer.
    """

    def __init__(self, folder: Path, name: str, url: str, token: str) -> None:
        self.name, self.state = name, folder / name
        record = folder / f"{name}.json"
        record.write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
        command = [sys.executable, "-m", f"{local_agent.__name__}.cli", "answer", str(record), "--state"]
        command += [str(self.state), "--referee", url, "--epsilon", "2", "--yes", "--max-delay", "0.1"]
        self._command = [*command, "--patience", PATIENCE]
        self._environment = {**os.environ, "TANDEM_ENROLMENT_TOKEN": token}
        self._process: subprocess.Popen[str] | None = None
        self._over = threading.Event()
        self._at_work = False
        self.lives, self.problem = 0, ""
        self.thread = threading.Thread(target=self._work, daemon=True)

    @property
    def works(self) -> bool:
        """Whether its process is enrolled, and has not ended."""
        return self._at_work

    def kill(self) -> None:
        """Kill its process without a word."""
        self._at_work = False
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """End it for good: nobody asks any more."""
        self._over.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self.thread.join()

    def receipts(self) -> list[str]:
        """Return the ids of the reports that a referee has acknowledged to it."""
        kept = (self.state / "receipts").exists()
        return [str(each.report.message["report_id"]) for each in held_receipts(self.state)] if kept else []

    def _work(self) -> None:
        while not self._over.is_set():
            self.lives += 1
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment
            )
            for line in self._process.stdout or ():
                self._at_work = self._at_work or WAITS in line
            said = self._process.communicate()[1]
            self._at_work = False
            if self._process.returncode == -signal.SIGKILL:
                continue
            if self._process.returncode != 0 and not self._over.is_set():
                self.problem = said.strip()
            return
