"""Runs one run after the other in a thread of its own, oldest first; takes up what a crash cut off."""

from __future__ import annotations

import logging
import threading

from referee.referee import Referee

log = logging.getLogger("tandem.referee")


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
            for run in self._referee.store.unfinished():
                try:
                    self._referee.execute(run.run)
                except Exception:
                    # A bug must not look like a result: the run stays unfinished, the log says why.
                    log.exception("run %s stopped", run.run)
