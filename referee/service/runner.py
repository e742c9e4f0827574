"""Runs one run after the other in a thread of its own, oldest first; takes up what a crash cut off.

A run that waits for agents to enrol lets those behind it pass.
Of all processes on one database one does so: the one with the lease.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import Superseded
from referee.runs import execution
from referee.service.referee import Referee
from referee.state.values import Run

log = logging.getLogger("tandem.referee")

PAUSE = 5.0
"""Seconds before the database is tried again when it could not be used."""
LOOK = 0.5
"""Seconds after which to look for agents that a run waits for, other processes' runs, or a lease that has run out."""


class Runner:
    """The thread that executes runs.

    Parameters
    ----------
    referee
        Whose runs.
    """

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._wanted = threading.Event()
        self._wanted.set()
        self._waiting: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="runner", daemon=True)

    def start(self) -> None:
        """Begin with whatever is unfinished."""
        self._thread.start()
        threading.Thread(target=self._renew, name="lease", daemon=True).start()

    def stop(self) -> None:
        """Begin nothing new, and let another process drive at once; what is under way here writes nothing more."""
        self._stopping.set()
        with suppress(OSError, SQLAlchemyError):
            self._referee.store.release_lease()

    def wake(self) -> None:
        """Say that there is a new run."""
        self._wanted.set()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait(LOOK)
            self._wanted.clear()
            try:
                if self._referee.drive():
                    for run in self._referee.store.unfinished():
                        if not self._waits(run):
                            self._carry(run.run)
            except Superseded:
                log.warning("another process has taken the lease: it drives the runs now")
            except (OSError, SQLAlchemyError):
                # No fault of a run: it stays where it is, and is taken up when the disk or database is back.
                log.exception("the referee's state cannot be used; it is tried again in %g s", PAUSE)
                time.sleep(PAUSE)
                self._wanted.set()

    def _waits(self, run: Run) -> bool:
        """Tell whether a run has to wait for agents, and may."""
        now = time.monotonic()
        lacks = run.status != "cancelling" and self._referee.lacking(run) is not None
        if lacks and now - self._waiting.setdefault(run.run, now) < execution.ENROLMENT_PATIENCE:
            return True
        self._waiting.pop(run.run, None)
        return False

    def _carry(self, run: str) -> None:
        try:
            self._referee.execute(run, patience=0.0)
        except (Superseded, OSError, SQLAlchemyError):
            raise
        except Exception:
            # A bug must not look like a result, and nobody may wait for ever: the run fails, the log says why.
            log.exception("run %s stopped", run)
            self._referee.give_up(run, "a fault of the referee itself; its log says more")

    def _renew(self) -> None:
        while not self._stopping.wait(self._referee.lease / 3):
            if self._referee.store.fence is not None:
                try:
                    self._referee.store.renew_lease(self._referee.lease)
                except (OSError, SQLAlchemyError):
                    log.warning("the lease could not be renewed: if that goes on, another process may take it")
