"""Messages between the parties of a history: as bytes, through whatever the faults do to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import BadMessage, CannotWrite, PeerMisbehaved, PeerUnavailable
from common.crypto.identity import Signed
from deploy.histories.faults import Crash, Faults

Restart = Callable[[str], None]
Later = Callable[[str, bool, Callable[[], Any]], None]
Leaving = Callable[[str, str, Any], None]
ATTEMPTS = 40
"""How often a referee asks a curator that does not answer: as its client does within its patience."""


class Channel:
    """One way to a party: what implements a port by calling another party.

    Parameters
    ----------
    faults
        The history's.
    source
        Who sends.
    party
        Gives the name of who is asked, and the party as it is now: it may have been opened again.
    died
        Called when the asked party's process ended while it worked.
    leaves
        Called with who sends, the method and what leaves: the arguments of a call, or the reply.
    later
        Takes calls that come later: who called, whether nothing more is heard of it meanwhile, and the call.
    patient
        Whether nobody's answer is waited for again and again here, as the referee's client of a curator does.
    """

    def __init__(
        self,
        faults: Faults,
        source: str,
        party: Callable[[], tuple[str, Any]],
        died: Restart,
        leaves: Leaving,
        later: Later,
        patient: bool = False,
    ) -> None:
        self._faults, self._source = faults, source
        self._party, self._died, self._later, self._patient = party, died, later, patient
        self._leaves = leaves
        self.heard: list[tuple[str, tuple[Any, ...], Any]] = []
        """What arrived and was answered: the method, the arguments, and the answer."""
        self.sent: list[tuple[str, tuple[Any, ...]]] = []
        """What has left, whether it arrived or not."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.sent.append((method, arguments))
            self._leaves(self._source, method, arguments)
            for attempt in range(ATTEMPTS if self._patient else 1):
                try:
                    return self._carry(method, arguments)
                except PeerUnavailable:
                    if attempt == ATTEMPTS - 1 or not self._patient:
                        raise
            raise AssertionError("unreachable")

        return call

    def _carry(self, method: str, arguments: tuple[Any, ...]) -> Any:
        kind = self._faults.message(f"{self._source}: {method}")
        if kind == "drop":
            raise PeerUnavailable("the message was lost")
        if kind in ("delay", "away"):
            self._later(self._source, kind == "away", lambda: self._deliver(method, arguments))
            raise PeerUnavailable("nobody answered in time")
        if kind in ("truncate", "corrupt"):
            arguments = tuple(self._damaged(a, kind) for a in arguments)
        if kind == "duplicate":
            self._deliver(method, arguments)
        reply = self._deliver(method, arguments)
        if kind == "lose reply":
            raise PeerUnavailable("the reply was lost")
        if kind in ("corrupt reply", "alter reply") and isinstance(reply, Signed):
            raw = reply.raw()
            try:
                return Signed.model_validate_json(
                    self._faults.altered(raw) if kind == "alter reply" else self._faults.spoilt(raw, "corrupt")
                )
            except ValueError:
                raise PeerMisbehaved("it answered something that is not a signed message") from None
        return reply

    def _damaged(self, argument: Any, kind: str) -> Any:
        if isinstance(argument, bytes) and argument:
            return self._faults.spoilt(argument, kind)
        if not isinstance(argument, Signed):
            return argument
        try:
            return Signed.model_validate_json(self._faults.spoilt(argument.raw(), kind))
        except ValueError:
            raise BadMessage("not a signed message") from None

    def _deliver(self, method: str, arguments: tuple[Any, ...]) -> Any:
        name, party = self._party()
        try:
            with self._faults.working(name):
                reply = getattr(party, method)(*arguments)
        except Crash:
            self._died(name)
            raise PeerUnavailable("the connection was cut") from None
        except (OSError, SQLAlchemyError):
            raise CannotWrite("its store cannot be used at present") from None
        self._leaves(name, f"{method}'s reply", reply)
        self.heard.append((method, arguments, reply))
        return reply
