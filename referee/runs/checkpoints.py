"""Checkpoints of a run: the referee signs how far its transcript goes, and witnesses keep that from then on.

Entry 0 of a transcript names the witnesses of the run, and each of them has the run's first checkpoint before anybody
is asked. From then on they have a further one at most once a second, as answers come in, and the last one once the run
has ended. A witness that is away meanwhile is passed over, and asked again; it never ends a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from common.core.errors import CannotWrite, PeerError, TandemError
from common.wire.identity import Identity, Signed
from common.wire.receipts import Checkpoint, Kept, checkpoint_of
from referee.state.store import Store

log = logging.getLogger("tandem.referee")
BETWEEN = 1.0
"""Seconds between two checkpoints of a run that goes on, at least."""
SHARE = 50.0
"""How many times as long as a checkpoint takes is the time to the next one, at least."""


class RunWitness(Protocol):
    """A witness of runs: a service that neither referee nor curator owns."""

    @property
    def place(self) -> str:
        """Where it is, in words that find it again."""
        ...

    def key(self) -> str:
        """Return its public key."""
        ...

    def keep(self, signed: Signed) -> Signed:
        """Keep a checkpoint; return the witness's word (:class:`~common.wire.receipts.Witnessed`)."""
        ...


class Checkpoints:
    """Makes the checkpoints of one referee's runs, and has them witnessed.

    Parameters
    ----------
    store, identity
        The referee's own.
    witnesses
        Who keeps them; none by default.
    clock
        Seconds since 1970.
    beacon
        Whether the witnesses' words take part in the orders of runs (:mod:`common.wire.beacon`).
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        witnesses: Sequence[RunWitness] = (),
        clock: Callable[[], float] = time.time,
        *,
        beacon: bool = False,
    ) -> None:
        self.beacon = beacon
        self._store = store
        self._identity = identity
        self._witnesses = tuple(witnesses)
        self._keys: dict[str, str] = {}
        self._clock = clock
        self._due: dict[str, float] = {}
        self._settled: set[str] = set()
        self._links: dict[str, list[tuple[str, str]]] = {}  # of each run's first entries, which never change

    def keys(self) -> list[str]:
        """Return the witnesses' keys.

        Raises
        ------
        PeerUnavailable, CannotWrite
            If one that has not been asked before does not answer.
        """
        for witness in self._witnesses:
            if witness.place not in self._keys:
                self._keys[witness.place] = witness.key()
        return [self._keys[witness.place] for witness in self._witnesses]

    def make(self, run: str, configuration: str) -> Kept:
        """Make a checkpoint of the whole transcript, or take the one that there is, and have it witnessed by all.

        Parameters
        ----------
        configuration
            Digest of the run's configuration.

        Raises
        ------
        PeerUnavailable, CannotWrite
            If a witness cannot keep it now; those that can have kept it.
        RolledBack
            If a witness has seen another transcript of the run.
        """
        began = time.monotonic()
        kept = self._current(run, configuration)
        problem: TandemError | None = None
        for witness in self._witnesses:
            try:
                if self._key(witness) not in kept.seen():
                    kept = kept.model_copy(update={"witnessed": (*kept.witnessed, witness.keep(kept.checkpoint))})
                    kept.seen()  # what a witness has signed is for this checkpoint, or it is not kept
                    self._store.keep_checkpoint(run, kept.said().entries, kept)
            except (PeerError, CannotWrite) as error:
                problem = error
        self._due[run] = time.monotonic() + max(BETWEEN, SHARE * (time.monotonic() - began))
        if problem is not None:
            raise problem
        return kept

    def due(self, run: str) -> bool:
        """Tell whether it is time for a further checkpoint of a run that goes on."""
        return time.monotonic() >= self._due.get(run, 0.0)

    def in_passing(self, run: str, configuration: str) -> None:
        """Make a checkpoint; a witness that is away is only logged.

        Raises
        ------
        RolledBack
            As :meth:`make`.
        """
        try:
            self.make(run, configuration)
        except (PeerError, CannotWrite) as error:
            log.warning("run %s goes on, its checkpoint is not witnessed yet: %s", run, error.detail)

    def owed(self, run: str) -> bool:
        """Tell whether the end of a run that has ended is without a checkpoint, or one of its witnesses without it."""
        if run in self._settled:
            return False
        last, kept = self._store.last_entry(run), self._store.last_checkpoint(run)
        if last is not None and (kept is None or kept.said().entries <= last.index):
            return True
        if last is not None and kept is not None:
            seen = kept.seen()
            if any(self._keys.get(witness.place) not in seen for witness in self._witnesses):
                return True
        self.settle(run)
        return False

    def settle(self, run: str) -> None:
        """Look no more at a run that has ended."""
        self._settled.add(run)
        self._links.pop(run, None)

    def _key(self, witness: RunWitness) -> str:
        self.keys()
        return self._keys[witness.place]

    def _current(self, run: str, configuration: str) -> Kept:
        last, kept = self._store.last_entry(run), self._store.last_checkpoint(run)
        if last is not None and kept is not None and kept.said().entries == last.index + 1:
            return kept
        known = self._links.get(run, [])
        links = self._links[run] = [*known, *self._store.links(run, len(known))]
        now = int(self._clock())
        if kept is not None:
            now = max(now, Checkpoint.parse(kept.checkpoint.message).time)  # a clock that was put back
        kept = Kept(checkpoint=checkpoint_of(self._identity, run, configuration, links, now))
        self._store.keep_checkpoint(run, len(links), kept)
        return kept
