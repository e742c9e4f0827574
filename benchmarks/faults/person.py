"""One person's agent, or the relay that it asks through, under a fault: when it enrols, and when it answers."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import local_agent
from benchmarks.faults.command import Command
from benchmarks.faults.deployment import deployment, scenario
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.once import RUN, Struck, check
from local_agent.client import RefereeClient

PERSON, RELAY = "person", "relay"
STRIKES = (
    *((kind, PERSON) for kind in ("full", "read-only", "clock +1d", "clock -1d")),
    *((kind, RELAY) for kind in ("descriptors", "clock +1d", "clock -1d", "killed")),
)
"""What is tried. A command that lacks descriptors from the start is not begun by its system, and a relay keeps nothing
on any disk."""
PEOPLE = 10
WAITS = "waits for its question"
ANSWERED = "local-agent has answered"


def person(folder: Path, kind: str, struck: str = PERSON) -> Struck:
    """Strike while one person's agent enrols, and again while it is asked; it is one of all who are needed.

    Args:
        folder: For the parties.
        kind: Of the fault.
        struck: The person, or the relay that they ask through.
    """
    found, chosen = Struck(), scenario(1, PEOPLE + 1)
    with deployment(folder, chosen, PEOPLE) as parties:
        agent = f"{local_agent.__name__}.cli"
        record = parties.folder / "person.json"
        record.write_text(json.dumps({"features": [0.1] * 8, "label": 1}))
        answer = [agent, "answer", str(record), "--state", str(parties.equip(PERSON) / "agent"), "--yes"]
        answer += ["--epsilon", "2", "--max-delay", "0.1", "--patience", "20"]
        if struck == RELAY:
            parties.equip(RELAY)
            parties.serve(RELAY, agent, "relay", "--referee", parties.urls["referee"]).wait_for("listens on")
            answer += ["--relay", parties.urls[RELAY], "--referee-key", _key(parties.urls["referee"])]
        else:
            answer += ["--referee", parties.urls["referee"]]
        command = Command(parties, PERSON, answer)
        try:
            with KINDS[kind](parties, struck):
                command.start()
                enrolled = not command.ended(WAITS)
            if not enrolled:
                found.wrong += command.unclear()
                command.start()
                if command.ended(WAITS):
                    found.wrong.append(f"cannot enrol once the fault is gone: {command.said}")
            parties.remote.create(chosen, 1, RUN)
            with KINDS[kind](parties, struck):
                answered = _answers(command)
            if not answered:
                found.wrong += command.unclear()
                command.start()
                if not _answers(command):
                    found.wrong.append(f"does not answer once the fault is gone: {command.said}")
            found.faults.append({"kind": kind, "party": struck, "enrolled": enrolled, "answered": answered})
            check(found, parties, parties.remote.follow(RUN, lambda text, numbers: None))
        finally:
            command.stop()
    if found.counted != PEOPLE + 1:
        found.wrong.append(f"{found.counted} of {PEOPLE + 1} answers are counted")
    return found


def _key(referee: str) -> str:
    with closing(RefereeClient(referee)) as client:
        return client.key()


def _answers(command: Command) -> bool:
    command.ended(ANSWERED)
    return ANSWERED in command.said
