"""Checkpoints of a run: the referee signs the length and hash of its transcript, and witnesses keep that.

Entry 0 of a transcript names the witnesses of the run, and each of them has the run's first checkpoint before any agent
is asked. After that each gets a further one at most once a second, as answers come in, and the last one once the run
has ended. A witness that is unavailable, that hangs, or that answers wrongly is skipped and asked again later. A run
ends if a witness shows the referee's own signature under another history.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from common.core.errors import (
    CannotWrite,
    PeerMisbehaved,
    PeerUnavailable,
    RolledBack,
    RunCancelled,
    Superseded,
    TandemError,
    Unauthorized,
    VersionSkew,
)
from common.crypto.identity import KEY_PATTERN, Identity, Signed, verify
from common.log.entries import START
from common.log.receipts import Checkpoint, StoredCheckpoint, Witnessed, signed_checkpoint
from common.log.transcript import EntryHash
from common.log.witness import Witness
from common.net.transport import DeadlinePassed, time_limit
from referee.store import RefereeStore

T = TypeVar("T")
log = logging.getLogger("tandem.referee")
BETWEEN = 1.0  # least seconds between two checkpoints of a run in progress
SHARE = 50.0  # least time to the next checkpoint, in multiples of what this one took
SLOW = 0.25  # a witness that takes at least so many seconds is paced over all runs, not per run
PATIENCE = 2.0
"""Timeout in seconds of a witness's answer; also the total that a failing witness may cost a run in progress."""


@dataclass
class WitnessStatus:
    """How a witness has answered so far."""

    key: str = ""  # empty until it has sent it
    problem: str = ""  # why its last answer was invalid; empty if it was valid
    misbehaved: int = 0  # how often it has answered wrongly
    again: float = 0.0  # when a run in progress asks it again, in seconds of this machine's clock


class RunCheckpoints:
    """Makes the checkpoints of one referee's runs, and has them witnessed.

    With ``beacon`` the witnesses' signed statements are part of the orders of runs (:mod:`common.log.receipts`). Raises
    PeerUnavailable, CannotWrite, PeerMisbehaved, Unauthorized or VersionSkew where a witness does not answer as it
    should; RolledBack where it has seen another transcript of the run; and what the caller's own time limit raises
    (:func:`common.net.transport.time_limit`).
    """

    def __init__(
        self, store: RefereeStore, identity: Identity, witnesses: Sequence[Witness] = (), *, beacon: bool = False
    ) -> None:
        self.beacon = beacon
        self.standing = {witness.place: WitnessStatus() for witness in witnesses}
        self._store = store
        self._identity = identity
        self._witnesses = tuple(witnesses)
        self._due: dict[str, float] = {}
        self._settled: set[str] = set()
        self._making: dict[str, threading.Lock] = {}
        self._last: dict[tuple[str, str], Witnessed] = {}  # each witness's last statement on each run, by key
        self._links: dict[str, list[EntryHash]] = {}  # of each run's first entries, which never change

    def keys(self) -> list[str]:
        return [self._key(witness) for witness in self._witnesses]

    def make(self, run: str, configuration: str) -> StoredCheckpoint:
        """Make a checkpoint of the whole transcript, or take the existing one, and have it witnessed by all.

        ``configuration`` is the digest of the run's.
        """
        checkpoint, problems = self._tell(run, configuration, self._witnesses)
        for problem in problems.values():
            raise problem
        return checkpoint

    def due(self, run: str) -> bool:
        return time.monotonic() >= self._due.get(run, 0.0)

    def in_passing(self, run: str, configuration: str, cost: dict[str, float]) -> dict[str, str]:
        """Make a checkpoint of a run in progress; return the problem of each witness that failed.

        ``cost`` has the seconds that each witness has cost this run in vain. Beyond :data:`PATIENCE` the witness is no
        longer asked.
        """
        now = time.monotonic()
        asked = [witness for witness in self._witnesses if now >= self.standing[witness.place].again]
        return self._tell_patiently(run, configuration, asked, cost)

    def catch_up(self, run: str, configuration: str, cost: dict[str, float]) -> None:
        """Have skipped witnesses sign the end of a run, in a thread that no run waits for.

        ``cost`` is the total over all runs that are caught up with now.
        """
        try:
            self._tell_patiently(run, configuration, self._witnesses, cost)
        except RolledBack as error:
            self.settle(run)  # repeating the request does not change what the witness has seen
            log.warning("the end of run %s is not witnessed: %s", run, error.detail)

    def owed(self, run: str) -> bool:
        """Tell whether the end of an ended run has no checkpoint, or some witness has not signed it."""
        if run in self._settled:
            return False
        last, checkpoint = self._store.last_entry(run), self._store.last_checkpoint(run)
        if last is not None:
            if checkpoint is None or checkpoint.verified().entries <= last.index:
                return True
            statements = checkpoint.seen()
            if any(standing.key not in statements for standing in self.standing.values()):
                return True
        self.settle(run)
        return False

    def settle(self, run: str) -> None:
        self._settled.add(run)
        self._links.pop(run, None)
        self._making.pop(run, None)
        for key in [key for key in self._last if key[0] == run]:
            del self._last[key]

    def _tell_patiently(
        self, run: str, configuration: str, witnesses: Sequence[Witness], cost: dict[str, float]
    ) -> dict[str, str]:
        asked = [witness for witness in witnesses if cost.get(witness.place, 0.0) < PATIENCE]
        _, problems = self._tell(run, configuration, asked, cost)
        return {place: problem.words for place, problem in problems.items()}

    def _tell(
        self, run: str, configuration: str, witnesses: Sequence[Witness], cost: dict[str, float] | None = None
    ) -> tuple[StoredCheckpoint, dict[str, TandemError]]:
        problems: dict[str, TandemError] = {}
        with self._making.setdefault(run, threading.Lock()):
            began = time.monotonic()
            checkpoint = self._current(run, configuration)
            for witness in witnesses:
                asked = time.monotonic()
                try:
                    if self._key(witness) not in checkpoint.seen():
                        word = self._word(witness, checkpoint)
                        self._fill_gap(witness, run, checkpoint, Witnessed.parse(word.message))
                        checkpoint = checkpoint.model_copy(update={"witnessed": (*checkpoint.witnessed, word)})
                        self._store.keep_checkpoint(run, checkpoint.verified().entries, checkpoint)
                except (PeerUnavailable, CannotWrite, PeerMisbehaved, Unauthorized, VersionSkew) as error:
                    problems[witness.place] = error
                    if cost is not None:
                        cost[witness.place] = cost.get(witness.place, 0.0) + time.monotonic() - asked
            self._due[run] = time.monotonic() + max(BETWEEN, SHARE * (time.monotonic() - began))
        return checkpoint, problems

    def _key(self, witness: Witness) -> str:
        standing = self.standing[witness.place]
        if not standing.key:
            key = self._asked(witness, witness.key)
            if not isinstance(key, str) or re.fullmatch(KEY_PATTERN.strip("^$"), key) is None:
                raise self._misbehaves(witness, "its key is no Ed25519 key, 64 hexadecimal digits")
            standing.key = key
        return standing.key

    def _word(self, witness: Witness, checkpoint: StoredCheckpoint) -> Signed:
        """Have a witness keep a checkpoint; return its signed statement, which is about exactly this checkpoint."""
        signed = self._asked(witness, lambda: witness.keep(checkpoint.checkpoint))
        if signed is None:
            raise self._misbehaves(witness, "it signs nothing")
        try:
            whose = "the witness that answers there"
            parsed = Witnessed.parse(verify(signed, Witnessed.KIND, self._key(witness), whose))
        except TandemError as error:
            raise self._misbehaves(witness, error.detail) from None
        if parsed.checkpoint != checkpoint.verified().fingerprint():
            raise self._misbehaves(witness, "it has signed another checkpoint than the one that it was shown")
        if self.standing[witness.place].problem:
            log.warning("the witness at %s keeps checkpoints again", witness.place)
            self.standing[witness.place].problem = ""
        return signed

    def _fill_gap(self, witness: Witness, run: str, checkpoint: StoredCheckpoint, parsed: Witnessed) -> None:
        """Store the statements that a witness has signed before this one and that never arrived here.

        Without them an audit would find a gap and take it for a hidden history. A statement is not stored if the
        witness does not show all that it has kept, or has signed something that it was not shown.
        """
        key = self._key(witness)
        if (run, key) not in self._last or not _follows(parsed, self._last[run, key]):
            earlier = [
                each for each in self._store.checkpoints(run) if each.verified().entries < checkpoint.verified().entries
            ]
            last = next((words[key] for each in reversed(earlier) if key in (words := each.seen())), None)
            if not _follows(parsed, last):
                last = self._missing(witness, run, earlier, last)
            if not _follows(parsed, last):
                detail = f"its word number {parsed.position} does not follow those that it shows"
                raise self._misbehaves(witness, detail)
        self._last[run, key] = parsed

    def _missing(
        self, witness: Witness, run: str, earlier: Sequence[StoredCheckpoint], last: Witnessed | None
    ) -> Witnessed | None:
        """Store the statements of a witness that follow its last one here, as it shows them; return the newest."""
        key = self._key(witness)
        checkpoints = self._asked(witness, lambda: witness.kept(self._identity.public, run))
        try:
            words = {
                each.seen()[key].checkpoint: signed
                for each in checkpoints
                for signed in each.witnessed
                if signed.key == key
            }
        except TandemError as error:
            raise self._misbehaves(witness, error.detail) from None
        for each in earlier:
            signed = words.get(each.verified().fingerprint())
            if signed is None or key in each.seen() or not _follows(parsed := Witnessed.parse(signed.message), last):
                continue
            updated = each.model_copy(update={"witnessed": (*each.witnessed, signed)})
            self._store.keep_checkpoint(run, each.verified().entries, updated)
            last = parsed
        return last

    def _asked(self, witness: Witness, ask: Callable[[], T]) -> T:
        """Ask a witness and record how it answers; handle any exception, since its answer is external input."""
        standing, began = self.standing[witness.place], time.monotonic()
        try:
            with time_limit(PATIENCE):
                return ask()
        except (RolledBack, RunCancelled, Superseded):
            raise  # the last two belong to the run, which checks its state while it waits
        except (DeadlinePassed, CannotWrite) as error:
            problem: TandemError = PeerUnavailable(f"the witness at {witness.place} has not answered in {PATIENCE:g} s")
            if isinstance(error, CannotWrite):
                problem = CannotWrite(f"the witness at {witness.place} keeps nothing at present: {error.detail:.300}")
            self._note(witness, problem.detail)
            raise problem from None
        except (PeerUnavailable, Unauthorized, VersionSkew) as error:
            self._note(witness, error.words)
            raise
        except Exception as error:
            raise self._misbehaves(witness, getattr(error, "detail", type(error).__name__)) from error
        finally:
            if (took := time.monotonic() - began) >= SLOW:
                standing.again = time.monotonic() + SHARE * took

    def _misbehaves(self, witness: Witness, what: str) -> PeerMisbehaved:
        detail = f"the witness at {witness.place} answers what no witness does: {what:.300}"
        self.standing[witness.place].misbehaved += 1
        self._note(witness, detail)
        return PeerMisbehaved(detail)

    def _note(self, witness: Witness, problem: str) -> None:
        standing = self.standing[witness.place]
        if not standing.problem:
            log.warning("a witness is passed over, and asked again: %s", problem)
        standing.problem = problem

    def _current(self, run: str, configuration: str) -> StoredCheckpoint:
        last, checkpoint = self._store.last_entry(run), self._store.last_checkpoint(run)
        if last is not None and checkpoint is not None and checkpoint.verified().entries == last.index + 1:
            return checkpoint
        cached = self._links.get(run, [])
        links = self._links[run] = [*cached, *self._store.links(run, len(cached))]
        now = int(time.time())
        if checkpoint is not None:
            now = max(now, Checkpoint.parse(checkpoint.checkpoint.message).time)  # if the clock was set back
        checkpoint = StoredCheckpoint(checkpoint=signed_checkpoint(self._identity, run, configuration, links, now))
        self._store.keep_checkpoint(run, len(links), checkpoint)
        return checkpoint


def _follows(parsed: Witnessed, last: Witnessed | None) -> bool:
    position, previous = (0, START) if last is None else (last.position + 1, last.fingerprint())
    return (parsed.position, parsed.previous) == (position, previous)
