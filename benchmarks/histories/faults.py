"""What goes wrong in a history, and when: its seed decides, also of what happens to messages on their way."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import SQLAlchemyError

from benchmarks.histories.determined import Drawn
from benchmarks.histories.disk import Disk
from common.core.errors import BadMessage, CannotWrite, PeerMisbehaved, PeerUnavailable
from common.crypto.identity import Signed
from common.log.ledger import LEDGER

MESSAGES = (
    "drop", "lose reply", "duplicate", "delay", "away", "truncate", "corrupt", "corrupt reply", "alter reply"
)  # fmt: skip
"""What may happen to a message. One that is delayed comes once more later, after others: so it is reordered, too. Who
is away sends nothing more for longer than a question waits, and the message comes at the end of that."""
STEPS = ("crash before", "crash after", "power cut before", "power cut after", "disk full")
"""What may happen at a durable step. A power cut ends all processes of the machine."""


SURVIVES = 0.5
"""How likely a change that was not synchronised survives a power cut."""


class Crash(BaseException):
    """A party's process has ended here: nothing of Tandem may catch this and go on."""


class Faults:
    """The faults of one history.

    Args:
        seed: Decides all.
        message_rate, step_rate, pause_rate: Shares of the messages, of the durable steps and of the driver's waits at
            which something goes wrong, in [0, 1].
        most: How many faults a history has at most, so that it ends.
    """

    def __init__(
        self,
        seed: int,
        message_rate: float = 0.15,
        step_rate: float = 0.06,
        pause_rate: float = 0.05,
        most: int = 12,
    ) -> None:
        self.seed = seed
        self.random = Drawn(seed)
        self._rates = message_rate, step_rate, pause_rate
        self._left = most
        self.log: list[str] = []
        """What happened, in order."""
        self.active: list[str] = []
        """Which party works, the last of those that wait for one another."""
        self.unpowered: set[str] = set()
        """Parties whose machine had no power when they ended; nobody has looked at its disk since."""
        self._thread = threading.get_ident()

    def _chosen(self, rate: float, kinds: tuple[str, ...]) -> str | None:
        if self._left and self.random.random() < rate:
            self._left -= 1
            return self.random.choice(kinds)
        return None

    def message(self, what: str) -> str | None:
        """Say what happens to a message, and log it."""
        kind = self._chosen(self._rates[0], MESSAGES)
        self.log.append(what if kind is None else f"{what}: {kind}")
        return kind

    def stands_still(self, party: str) -> bool:
        """Say whether a driver stands still now for longer than its lease lasts, and log it."""
        still = self._chosen(self._rates[2], ("pause",)) is not None
        if still:
            self.log.append(f"{party} stands still until its lease has run out")
        return still

    def step(self, what: str, act: Callable[[], Any], full: Exception) -> Any:
        """Do a durable step of the active party, or what goes wrong in its place.

        What another thread does is no step of a history, which has one: something else in this process is at work.
        """
        if not self.active or threading.get_ident() != self._thread:
            return act()
        kind = self._chosen(self._rates[1], STEPS)
        if kind is not None:
            self.log.append(f"{self.active[-1]}: {kind} {what}")
        if kind in ("power cut before", "power cut after"):
            self.unpowered.add(self.active[-1])
        if kind in ("crash before", "power cut before"):
            raise Crash
        if kind == "disk full":
            raise full
        done = act()
        if kind in ("crash after", "power cut after"):
            raise Crash
        return done

    def spoilt(self, raw: bytes, kind: str) -> bytes:
        """Return bytes cut off, or with one bit the other way round."""
        place = self.random.randrange(len(raw))
        if kind == "truncate":
            return raw[:place]
        return raw[:place] + bytes([raw[place] ^ (1 << self.random.randrange(8))]) + raw[place + 1 :]

    def altered(self, raw: bytes) -> bytes:
        """Return JSON in which one digit is another: well formed, and not what was signed."""
        digits = [place for place, byte in enumerate(raw) if 48 <= byte <= 57]
        place = self.random.choice(digits)
        return raw[:place] + b"%d" % ((raw[place] - 48 + self.random.randint(1, 9)) % 10) + raw[place + 1 :]

    @contextmanager
    def over(self) -> Iterator[None]:
        """Let nothing more go wrong in the block."""
        left, self._left = self._left, 0
        try:
            yield
        finally:
            self._left = left

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Let nobody work in the block, whoever did before."""
        working, self.active = self.active, []
        try:
            yield
        finally:
            self.active = working

    @contextmanager
    def working(self, party: str) -> Iterator[None]:
        """Let durable steps in the block be this party's."""
        self.active.append(party)
        try:
            yield
        finally:
            self.active.pop()

    def survives(self) -> bool:
        """Say whether a change that was not synchronised is there after a power cut."""
        return self.random.random() < SURVIVES

    @contextmanager
    def installed(self, disk: Disk) -> Iterator[None]:
        """Let all durable steps on a disk go through here; nothing is synchronised but in its books, to save time."""
        replace: Any = os.replace
        unlink: Any = os.unlink
        commit: Any = DefaultDialect.do_commit

        def replacing(source: Any, target: Any) -> None:
            full = OSError(errno.ENOSPC, "No space left on device")
            place = Path(target)
            if not place.is_relative_to(disk.root):
                replace(source, target)  # no party's: compiled loops are kept in files, too
                return

            def act() -> None:
                disk.gone(place)
                replace(source, target)

            self.step(place.name, act, full)

        def synchronising(descriptor: int) -> None:
            if Path(os.readlink(f"/proc/self/fd/{descriptor}")).name != LEDGER:
                disk.synced(descriptor)
                return
            full = OSError(errno.ENOSPC, "No space left on device")
            self.step("an entry, which is written", lambda: disk.synced(descriptor), full)

        def unlinking(path: Any, **rest: Any) -> None:
            disk.gone(Path(path))
            unlink(path, **rest)

        def committing(dialect: Any, connection: Any) -> None:
            full = sqlite3.OperationalError("database or disk is full")

            def act() -> None:
                disk.commit(connection)
                commit(dialect, connection)

            self.step("a commit", act, full)

        with (
            patch.object(os, "replace", replacing),
            patch.object(os, "unlink", unlinking),
            patch.object(os, "fsync", synchronising),
            patch.object(DefaultDialect, "do_commit", committing),
        ):
            yield


Restart = Callable[[str], None]
Later = Callable[[str, bool, Callable[[], Any]], None]
Leaving = Callable[[str, str, Any], None]
ATTEMPTS = 40
"""How often a referee asks a curator that does not answer: as its client does within its patience."""


class Channel:
    """One way to a party: what implements a port by calling another party.

    Args:
        faults: The history's.
        source: Who sends.
        party: Gives the name of who is asked, and the party as it is now: it may have been opened again.
        died: Called when the asked party's process ended while it worked.
        leaves: Called with who sends, the method and what leaves: the arguments of a call, or the reply.
        later: Takes calls that come later: who called, whether nothing more is heard of it meanwhile, and the call.
        patient: Whether nobody's answer is waited for again and again here, as the referee's client of a curator does.
    """

    def __init__(
        self,
        faults: Faults,
        source: str,
        party: Callable[[], tuple[str, Any]],
        died: Restart,
        leaves: Leaving,
        later: Later,
        patient: bool = False,
    ) -> None:
        self._faults, self._source = faults, source
        self._party, self._died, self._later, self._patient = party, died, later, patient
        self._leaves = leaves
        self.heard: list[tuple[str, tuple[Any, ...], Any]] = []
        """What arrived and was answered: the method, the arguments, and the answer."""
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        """What has left, whether it arrived or not."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.sent.append((method, arguments))
            self._leaves(self._source, method, arguments)
            for attempt in range(ATTEMPTS if self._patient else 1):
                try:
                    return self._carry(method, arguments)
                except PeerUnavailable:
                    if attempt == ATTEMPTS - 1 or not self._patient:
                        raise
            raise AssertionError("unreachable")

        return call

    def _carry(self, method: str, arguments: tuple[Any, ...]) -> Any:
        kind = self._faults.message(f"{self._source}: {method}")
        if kind == "drop":
            raise PeerUnavailable("the message was lost")
        if kind in ("delay", "away"):
            self._later(self._source, kind == "away", lambda: self._deliver(method, arguments))
            raise PeerUnavailable("nobody answered in time")
        if kind in ("truncate", "corrupt"):
            arguments = tuple(self._damaged(a, kind) for a in arguments)
        if kind == "duplicate":
            self._deliver(method, arguments)
        reply = self._deliver(method, arguments)
        if kind == "lose reply":
            raise PeerUnavailable("the reply was lost")
        if kind in ("corrupt reply", "alter reply") and isinstance(reply, Signed):
            raw = reply.raw()
            try:
                return Signed.model_validate_json(
                    self._faults.altered(raw) if kind == "alter reply" else self._faults.spoilt(raw, "corrupt")
                )
            except ValueError:
                raise PeerMisbehaved("it answered something that is not a signed message") from None
        return reply

    def _damaged(self, argument: Any, kind: str) -> Any:
        if isinstance(argument, bytes) and argument:
            return self._faults.spoilt(argument, kind)
        if not isinstance(argument, Signed):
            return argument
        try:
            return Signed.model_validate_json(self._faults.spoilt(argument.raw(), kind))
        except ValueError:
            raise BadMessage("not a signed message") from None

    def _deliver(self, method: str, arguments: tuple[Any, ...]) -> Any:
        name, party = self._party()
        try:
            with self._faults.working(name):
                reply = getattr(party, method)(*arguments)
        except Crash:
            self._died(name)
            raise PeerUnavailable("the connection was cut") from None
        except (OSError, SQLAlchemyError):
            raise CannotWrite("its store cannot be used at present") from None
        self._leaves(name, f"{method}'s reply", reply)
        self.heard.append((method, arguments, reply))
        return reply
