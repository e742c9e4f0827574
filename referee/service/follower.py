"""Learns, again and again, what other processes on the same database have stored."""

from __future__ import annotations

import logging
import threading

from sqlalchemy.exc import SQLAlchemyError

from common.core.threads import Supervised
from referee.service.referee import Referee

log = logging.getLogger("tandem.referee")

PERIOD = 0.05
"""Seconds between two looks: so much later than the driver a process hands out a question."""
PAUSE = 2.0
"""Seconds before the database is tried again when it could not be used."""


class Follower:
    """The thread that follows the database.

    Parameters
    ----------
    referee
        Who learns.
    """

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._stopping = threading.Event()
        self.threads = Supervised("follower")

    def start(self) -> None:
        """Begin."""
        self.threads.start(self._work)

    def stop(self) -> None:
        """End soon."""
        self._stopping.set()

    def _work(self) -> None:
        while not self._stopping.wait(PERIOD):
            try:
                self._referee.registrar.refresh()
                self._referee.collection.refresh()
            except (OSError, SQLAlchemyError):
                log.exception("the referee's database cannot be read; it is tried again in %g s", PAUSE)
                self._stopping.wait(PAUSE)
