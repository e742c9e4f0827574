"""Execute runs, each in its own thread, one at a time; resume runs that a crash interrupted.

A run gives up its turn while it waits for agents, so that other runs can go on. What it wrote before is on disk by
then, and afterwards it reads the state as the others left it. So questions to agents and operations of the curator are
sent one after the other, in an order that the transcripts show.

Of all processes on one database only the one that holds the lease executes runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import BadPlugin, Superseded
from common.core.plain import about_run
from common.core.threads import Supervised
from common.data.distributions.base import DISTRIBUTIONS
from common.learners.base import SETTINGS
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.local.mechanisms.mechanism import MECHANISMS
from common.local.queries.query import QUERIES
from common.operations.operation import OPERATIONS
from common.protocols.base import PROBLEMS
from referee.protocols.base import PROTOCOLS
from referee.runs import execution
from referee.service.referee import Referee
from referee.tables import StoredRun

log = logging.getLogger("tandem.referee")

PAUSE = 5.0  # seconds before a retry when the database could not be used
LOOK = 0.5
"""Seconds between checks for agents that a run waits for, other processes' runs, or an expired lease."""
CATCH_UP = 10.0  # seconds between two attempts to have the ends of runs witnessed
ENDING = 1.5
"""Seconds for runs under way to stop; one that computes, or waits for the curator, may take longer."""
MAX_AT_ONCE = 32
"""Most runs under way at the same time: each holds its open question in memory. Further ones wait until one ends."""


class Runner:
    """The threads that execute a referee's runs."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._wanted = threading.Event()
        self._wanted.set()
        self._waiting: dict[str, float] = {}
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._under_way: dict[str, threading.Thread] = {}
        self._again = 0.0
        self._caught_up = -CATCH_UP
        self._driver, self._runs = Supervised("runner"), Supervised("run")
        self._words, self._lease, self._witnesses = Supervised("words"), Supervised("lease"), Supervised("witnesses")
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = self._driver.start(self._work)
        self._words.start(learn_words)
        self._lease.start(self._renew)
        self._witnesses.start(self._catch_up)

    def stop(self) -> None:
        """Begin nothing new, and release the lease so that another process can drive; runs here write nothing more."""
        self._stopping.set()
        with suppress(OSError, SQLAlchemyError):
            self._referee.store.release_lease()
        self._wanted.set()
        until = time.monotonic() + ENDING
        for thread in (self._thread, *self._under_way.values()):
            if thread is not None:
                thread.join(max(0.0, until - time.monotonic()))

    @property
    def threads(self) -> list[Supervised]:
        return [self._driver, self._runs, self._words, self._lease, self._witnesses]

    @property
    def started(self) -> bool:
        """Whether this process drives the runs, or would if no other did."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self) -> None:
        self._wanted.set()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait(LOOK)
            self._wanted.clear()
            if time.monotonic() < self._again:
                continue
            self._under_way = {run: thread for run, thread in self._under_way.items() if thread.is_alive()}
            if self._referee.store.fence is None and self._under_way:
                # Runs that began under a lost lease must end before a new one is taken: they would write under it.
                continue
            with self._noted():
                if self._referee.drive():
                    self._begin()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Log errors that no run caused: runs stay as they are, and resume when the lease or the disk is back."""
        try:
            yield
        except Superseded:
            log.warning("another process has taken the lease: it drives the runs now")
        except (OSError, SQLAlchemyError):
            log.exception("the referee's state cannot be used; it is tried again in %g s", PAUSE)
            self._again = time.monotonic() + PAUSE

    def _begin(self) -> None:
        runs = self._referee.store.unfinished()
        # The agents left for the next run are known once the run before has its configuration.
        fresh = {run.run for run in runs if run.configuration is None and run.status != "cancelling"}
        settling = bool(fresh & self._under_way.keys())
        for run in runs:
            held_up = len(self._under_way) >= MAX_AT_ONCE or (run.run in fresh and settling)
            if run.run in self._under_way or (held_up and run.status != "cancelling"):
                continue
            try:
                waits = self._waits(run)
            except (Superseded, OSError, SQLAlchemyError):
                raise
            except Exception:  # noqa: BLE001 - the run raises it again in its own thread, and ends there
                waits = False
            if not waits:
                settling = settling or run.run in fresh
                self._under_way[run.run] = self._runs.start(partial(self._carry, run.run), run.run)

    def _catch_up(self) -> None:
        """Send final checkpoints that witnesses missed, in a thread of its own so that no witness delays the driver."""
        while not self._stopping.wait(LOOK):
            if self._referee.store.fence is None or time.monotonic() < max(self._again, self._caught_up + CATCH_UP):
                continue
            self._caught_up = time.monotonic()
            with self._noted():
                self._referee.catch_up()

    def _waits(self, run: StoredRun) -> bool:
        if run.status == "cancelling" or self._referee.lacking(run) is None:
            self._waiting.pop(run.run, None)
            return run.status != "cancelling" and self._referee.claimed(run) is not None
        now = time.monotonic()
        return now - self._waiting.setdefault(run.run, now) < execution.ENROLMENT_PATIENCE

    def _carry(self, run: str) -> None:
        with self._noted(), about_run(run), self._turn:
            try:
                self._referee.execute(run, patience=0.0, wait=self._let_others)
            except (Superseded, OSError, SQLAlchemyError):
                raise
            except BaseException as error:
                # A bug must not look like a result, and no party may wait forever: the run fails, the log says why.
                # If even that fails, its thread is started again after a pause, and no other run waits for it.
                log.exception("run %s stopped", run)
                self._referee.give_up(run, f"a fault of the referee itself ({type(error).__name__}); its log says more")
        self._wanted.set()

    def _let_others(self, seconds: float) -> None:
        self._turn.release()
        try:
            self._referee.wait(seconds)
        finally:
            self._turn.acquire()

    def _renew(self) -> None:
        while not self._stopping.wait(self._referee.lease / 3):
            if self._referee.store.fence is not None:
                try:
                    self._referee.store.renew_lease(self._referee.lease)
                except (OSError, SQLAlchemyError):
                    log.warning("the lease could not be renewed: if that goes on, another process may take it")


def learn_words() -> None:
    """Load everything that a scenario may name; takes a second or two, which would otherwise delay the first run."""
    for words in (PROTOCOLS, PROBLEMS, DISTRIBUTIONS, SETTINGS, MECHANISMS, QUERIES, HYPOTHESES, OPERATIONS):
        try:
            words.names()
        except BadPlugin as error:
            log.warning("%s", error.detail)  # a scenario that names it gets the same message


FOLLOW_PERIOD = 0.05  # seconds between two reads: the delay with which a process offers the driver's questions
FOLLOW_PAUSE = 2.0  # seconds before a retry when the database could not be used


class Follower:
    """The thread in which a referee's process reads what others have written to the database."""

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._stopping = threading.Event()
        self.threads = Supervised("follower")

    def start(self) -> None:
        self.threads.start(self._work)

    def stop(self) -> None:
        self._stopping.set()

    def _work(self) -> None:
        while not self._stopping.wait(FOLLOW_PERIOD):
            try:
                self._referee.registrar.refresh()
                self._referee.collection.refresh()
            except (OSError, SQLAlchemyError):
                log.exception("the referee's database cannot be read; it is tried again in %g s", FOLLOW_PAUSE)
                self._stopping.wait(FOLLOW_PAUSE)
