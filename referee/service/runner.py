"""Runs one run after the other in a thread of its own, oldest first; takes up what a crash cut off."""

from __future__ import annotations

import logging
import threading
import time

from sqlalchemy.exc import SQLAlchemyError

from referee.service.referee import Referee

log = logging.getLogger("tandem.referee")

PAUSE = 5.0
"""Seconds before the database is tried again when it could not be used."""


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
        self._thread = threading.Thread(target=self._work, name="runner", daemon=True)

    def start(self) -> None:
        """Begin with whatever is unfinished."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there is a new run."""
        self._wanted.set()

    def _work(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                for run in self._referee.store.unfinished():
                    self._carry(run.run)
            except (OSError, SQLAlchemyError):
                # No fault of a run: it stays where it is, and is taken up when the disk or database is back.
                log.exception("the referee's state cannot be used; it is tried again in %g s", PAUSE)
                time.sleep(PAUSE)
                self._wanted.set()

    def _carry(self, run: str) -> None:
        try:
            self._referee.execute(run)
        except (OSError, SQLAlchemyError):
            raise
        except Exception:
            # A bug must not look like a result, and nobody may wait for ever: the run fails, the log says why.
            log.exception("run %s stopped", run)
            self._referee.give_up(run, "a fault of the referee itself; its log says more")
