"""What stands on either side of a host: the referee, by five messages, and a population, without its people."""

from __future__ import annotations

from typing import Protocol

from common.crypto.identity import Identity, Signed


class Hosted(Protocol):
    """A population as its host sees it (:class:`local_agent.hosted.population.Population`)."""

    identity: Identity

    @property
    def real(self) -> bool:
        """Whether its people are real."""
        ...

    @property
    def answered(self) -> int:
        """How many people have been asked already."""
        ...

    def enrolment(self) -> Signed:
        """Return the signed request to be enrolled."""
        ...

    def settle(self, first: int) -> None:
        """Take the place in the whole population that the referee gave."""
        ...

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        """Return the signed header and the packed body of all answers."""
        ...

    def keep_receipt(self, receipt: Signed, header: Signed, body: bytes) -> None:
        """Store the referee's receipt for a report."""
        ...

    def close(self) -> None:
        """Let go of the state directory."""
        ...


class RefereePort(Protocol):
    """The referee as agents see it. A client implements it over HTTP; the referee itself, in process."""

    def enrol(self, signed: Signed, token: str) -> Signed:
        """Enrol a participant; the same again gets the same answer."""
        ...

    def poll(self, signed: Signed) -> Signed | None:
        """Return an assignment for the participant, or None."""
        ...

    def configuration(self, run: str) -> Signed:
        """Return a run's signed configuration."""
        ...

    def decline(self, signed: Signed) -> None:
        """Say that a question will not be answered, and why."""
        ...

    def report(self, signed: Signed) -> Signed:
        """Hand in an individual report; return the receipt."""
        ...

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        """Hand in a hosted population's report; return the receipt."""
        ...
