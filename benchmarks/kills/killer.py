"""Who is killed, and when: whichever party is at work, at random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from benchmarks.kills.fleet import Fleet
from benchmarks.kills.persons import Person
from benchmarks.kills.postgres import Server

PAUSES = (0.2, 4.0)
"""Seconds between two kills, uniform: so long that what was killed comes up again, and something is acknowledged."""
SERVER, SESSION = "postgresql", "postgresql-process"
"""The server as a whole, by its first process; and one of its other processes, upon which it ends all and recovers."""
UP = {"host": "hosts"}
"""What a party says when it is up, if not that it listens."""


class Killer:
    """Kills a party that works, at random moments, until it is told to stop.

    A kill waits while more than one party is on its way up again: on a slow machine nobody would ever work otherwise.

    Args:
        parties: Curator, referees and hosts.
        persons: Agents of single people.
        server: PostgreSQL, if it is to be killed, too.
        most: After how many kills it stops by itself.
        acknowledged: Returns how many reports are acknowledged by now.

    Attributes:
        kills: Seconds, party, and how many reports were acknowledged by then.
    """

    def __init__(
        self,
        parties: Fleet,
        persons: Sequence[Person],
        server: Server | None,
        chance: random.Random,
        most: int,
        acknowledged: Callable[[], int],
        pauses: tuple[float, float] = PAUSES,
    ) -> None:
        self._parties, self._persons, self._server = parties, persons, server
        self._chance, self._most, self._acknowledged, self._pauses = chance, most, acknowledged, pauses
        self._up = Counter[str]()
        self._over = threading.Event()
        self._began = time.monotonic()
        self.kills: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Kill nobody any more."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while len(self.kills) < self._most and not self._over.wait(self._chance.uniform(*self._pauses)):
            up = [name for name in self._parties.parties if self._works(name)]
            if len(up) < len(self._parties.parties) - 1:
                continue
            working: dict[str, Callable[[], None]] = {name: partial(self._kill, name) for name in up}
            waiting = [person for person in self._persons if person.works]
            if waiting:
                working["person"] = self._chance.choice(waiting).kill
            if self._server is not None:
                working |= {SERVER: self._server.crash, SESSION: self._end_session}
            if working:
                name = self._chance.choice(list(working))
                at = {"seconds": round(time.monotonic() - self._began, 2), "party": name}
                at["acknowledged"] = self._acknowledged()
                working[name]()
                self.kills.append(at)
                print(json.dumps(at), file=sys.stderr, flush=True)

    def _works(self, name: str) -> bool:
        """Tell whether a party has come up since it was killed last."""
        return self._said(name) > self._up[name]

    def _said(self, name: str) -> int:
        return sum(UP.get(name, "listens on") in line for line in self._parties.parties[name].printed)

    def _kill(self, name: str) -> None:
        self._up[name] = self._said(name)
        self._parties.kill(name)

    def _end_session(self) -> None:
        with suppress(ProcessLookupError, IndexError, FileNotFoundError):
            if self._server is not None:
                os.kill(self._chance.choice(self._server.processes()), signal.SIGKILL)
