"""One person's agent under a fault, when it enrols and when it answers: the same command goes on once it is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import local_agent
from benchmarks.faults.deployment import Deployment, deployment, scenario
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.once import PATIENCE, RUN, Struck, check
from common.core.errors import RunFailed

PERSON = "person"
STRIKES = ("full", "read-only", "clock +1d", "clock -1d")
"""What is tried. A command that lacks descriptors from the start is not begun by its system."""
PEOPLE = 10
WAITS = "waits for its question"
ANSWERED = "local-agent has answered"


class Command:
    """``local-agent answer`` for one person, as often as somebody starts it."""

    def __init__(self, parties: Deployment) -> None:
        record = parties.folder / "person.json"
        record.write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
        self._command = [sys.executable, "-m", f"{local_agent.__name__}.cli", "answer", str(record), "--state"]
        self._command += [str(parties.state(PERSON) / "agent"), "--referee", parties.urls["referee"], "--epsilon", "2"]
        self._command += ["--yes", "--max-delay", "0.1"]
        self._environment = {**os.environ, **parties.environment(PERSON)}
        self._log = parties.folder / "person.log"
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

        Raises
        ------
        RunFailed
            If it does neither for so long.
        """
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            ended = self.process is None or self.process.poll() is not None
            if ended or (says and says in self.said):
                return ended
            time.sleep(0.05)
        raise RunFailed(f"the person's agent does nothing: {self.said}")

    def stop(self) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def person(folder: Path, kind: str) -> Struck:
    """Strike one person's agent while it enrols, and again while it is asked; it is one of all who are needed.

    Parameters
    ----------
    folder
        For the parties.
    kind
        Of the fault.
    """
    found, chosen = Struck(), scenario(1, PEOPLE + 1)
    with deployment(folder, chosen, PEOPLE) as parties:
        parties.equip(PERSON)
        command = Command(parties)
        try:
            with KINDS[kind](parties, PERSON):
                command.start()
                enrolled = not command.ended(WAITS)
            if not enrolled:
                found.wrong += _one_line(command)
                command.start()
                if command.ended(WAITS):
                    found.wrong.append(f"cannot enrol once the fault is gone: {command.said}")
            parties.remote.create(chosen, 1, RUN)
            with KINDS[kind](parties, PERSON):
                answered = _answers(command)
            if not answered:
                found.wrong += _one_line(command)
                command.start()
                if not _answers(command):
                    found.wrong.append(f"does not answer once the fault is gone: {command.said}")
            found.faults.append({"kind": kind, "party": PERSON, "enrolled": enrolled, "answered": answered})
            check(found, parties, parties.remote.follow(RUN, lambda text, numbers: None))
        finally:
            command.stop()
    if found.counted != PEOPLE + 1:
        found.wrong.append(f"{found.counted} of {PEOPLE + 1} answers are counted")
    return found


def _answers(command: Command) -> bool:
    command.ended(ANSWERED)
    return ANSWERED in command.said


def _one_line(command: Command) -> list[str]:
    """Say what is wrong about how it ended: it should say in one line why."""
    said = [line for line in command.said.splitlines() if line.strip()]
    status = None if command.process is None else command.process.wait()
    if status == 0 or "Traceback" in command.said or not said:
        return [f"ended with {status}, and said: {command.said}"]
    return []
