"""What an agent needs of a referee: five messages. A client implements it over HTTP; the referee itself, in process."""

from __future__ import annotations

from typing import Protocol

from common.wire.identity import Signed


class RefereePort(Protocol):
    """The referee as agents see it."""

    def enrol(self, signed: Signed, token: str) -> Signed:
        """Enrol a participant; the same again gets the same answer."""
        ...

    def poll(self, signed: Signed) -> Signed | None:
        """Return an assignment for the participant, or None."""
        ...

    def configuration(self, run: str) -> Signed:
        """Return a run's signed configuration."""
        ...

    def report(self, signed: Signed) -> None:
        """Hand in an individual report."""
        ...

    def report_packed(self, signed: Signed, body: bytes) -> None:
        """Hand in a hosted population's report."""
        ...
