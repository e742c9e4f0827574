"""What a referee's process must have to be ready: room on its disk, its database, and somebody who drives the runs."""

from __future__ import annotations

import time

from common.net.readiness import Check, disk
from referee.service.referee import Referee
from referee.service.runner import Runner

TAKING_OVER = 3.0
"""Lengths of a lease in which another process may take over what one has left, or the first one begins."""


def checks(referee: Referee, runner: Runner) -> dict[str, Check]:
    """Return the checks of a referee's process.

    Only a process that drives, or would, needs a driver: one that takes requests alone (``--role ingest``) keeps what
    agents report until somebody drives again, so that taking it out of service would lose answers.
    """
    began = time.monotonic()

    def database() -> str | None:
        referee.store.check_writable()
        return None

    def driver() -> str | None:
        if not runner.started or referee.store.fence is not None:
            return None
        patience = TAKING_OVER * referee.lease
        left = referee.store.lease_left()
        if time.monotonic() - began < patience or (left is not None and left > -patience):
            return None
        return f"nobody has held the lease for {patience:g} seconds"

    return {"disk": lambda: disk(referee.folder), "database": database, "driver": driver}
