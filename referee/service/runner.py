"""Runs one run after the other in a thread of its own, oldest first; takes up what a crash cut off.

A run that waits for agents to enrol lets those behind it pass.
"""

from __future__ import annotations

import logging
import threading
import time

from sqlalchemy.exc import SQLAlchemyError

from referee.runs import execution
from referee.service.referee import Referee
from referee.state.values import Run

log = logging.getLogger("tandem.referee")

PAUSE = 5.0
"""Seconds before the database is tried again when it could not be used."""


LOOK = 0.2
"""Seconds between two looks at whether the agents are there that a run waits for."""


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
        self._thread = threading.Thread(target=self._work, name="runner", daemon=True)

    def start(self) -> None:
        """Begin with whatever is unfinished."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there is a new run."""
        self._wanted.set()

    def _work(self) -> None:
        while True:
            self._wanted.wait(LOOK if self._waiting else None)
            self._wanted.clear()
            try:
                for run in self._referee.store.unfinished():
                    if not self._waits(run):
                        self._carry(run.run)
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
        except (OSError, SQLAlchemyError):
            raise
        except Exception:
            # A bug must not look like a result, and nobody may wait for ever: the run fails, the log says why.
            log.exception("run %s stopped", run)
            self._referee.give_up(run, "a fault of the referee itself; its log says more")
