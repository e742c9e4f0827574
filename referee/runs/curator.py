"""The referee's side of a curator: its port, the checks of requests and releases, and how long an answer may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from common.core.errors import BadMessage, CannotWrite, Forged, PeerMisbehaved, PeerUnavailable
from common.crypto.identity import Signed, verify
from common.log.entries import Head
from common.log.witness import behind
from common.net import messages
from common.net.client import Client
from common.net.transport import DeadlinePassed, time_limit
from common.operations.operation import Operation, declared_event
from common.scenario.scenario import parse_resolved


class CuratorPort(Protocol):
    """The curator as the referee sees it."""

    def open_run(self, signed: Signed) -> Signed:
        """Agree to a run; the same configuration again gets the same answer."""

    def open_share(self, signed: Signed) -> Signed:
        """Open the share of an order that has a beacon; the same beacon again gets the same answer."""

    def perform(self, signed: Signed) -> Signed:
        """Carry out an operation; the same request again gets the stored release."""

    def acknowledge(self, signed: Signed) -> None:
        """Accept the countersignature of all releases; an unavailable curator is not waited for."""


def operation_request(run: str, digest: str, number: int, operation: Operation[Any], head: Head) -> messages.Perform:
    """Return the request to the curator for message ``number`` of a run's protocol; it is unique.

    ``head`` is that of the curator's ledger in its previous reply.
    """
    return messages.Perform(run=run, digest=digest, operation_id=str(number), operation=operation.wire(), seen=head)


# Whose key signs the curator's messages, and what to do if another key does.
CURATORS = (
    "the key of the curator that agreed to this run: another curator answers at its address, or it has lost its key; "
    "start the curator with the state directory of this run"
)


def check_release(signed: Signed, request: messages.Perform, digest: str, key: str) -> messages.StoredRelease:
    """Return the curator's release if it is signed for exactly this request, which has this digest.

    Forged if another key signed. PeerMisbehaved if it answers another request, its ledger does not extend the one shown
    before, or it declares no privacy event: an audit could then not compute the run's privacy cost.
    """
    release = messages.StoredRelease.parse(verify(signed, messages.StoredRelease.KIND, key, CURATORS))
    expected = (request.run, request.digest, request.operation_id, digest)
    if (release.run, release.digest, release.operation_id, release.request) != expected:
        raise PeerMisbehaved(f"the curator's release does not answer operation {request.operation_id}")
    if not release.ledger.extends(request.seen):
        raise PeerMisbehaved(behind("the referee", request.seen, release.ledger.head))
    try:
        declared_event(release.result)
    except BadMessage as error:
        what = f"the curator's release of operation {request.operation_id}"
        raise PeerMisbehaved(f"{what} does not say what it costs: {error.detail}") from None
    return release


def check_terms(signed: Signed, configuration: messages.Configuration) -> messages.Terms:
    """Return the curator's terms if they are signed for exactly this configuration.

    PeerMisbehaved if they are for another one, or promise something other than its scenario.
    """
    terms = messages.Terms.parse(verify(signed, messages.Terms.KIND))
    if (terms.run, terms.digest) != (configuration.run, configuration.fingerprint()):
        raise PeerMisbehaved("the curator's terms are for another configuration")
    agreed = parse_resolved(configuration.scenario).curator
    if (terms.n, terms.guarantee) != (agreed.n, agreed.guarantee):
        raise PeerMisbehaved("the curator's terms are not those of the scenario")
    if (terms.share if configuration.beacon else terms.share_sha256) is not None:
        raise PeerMisbehaved("the curator's share is open before the run's beacon, or bound to where there is none")
    if not terms.ledger.extends(None):
        raise PeerMisbehaved("the curator's ledger is not shown from its beginning")
    return terms


T = TypeVar("T")

CURATOR_PATIENCE = 86_400.0  # timeout in seconds of one answer of the curator
PAUSE = 2.0  # seconds before retrying a curator that is away, or cannot write
DOUBTS = 2  # retries after a reply, or a complaint about the request, that does not match what was signed
DOUBT = 0.2  # seconds before such a retry


def within(patience: float, ask: Callable[[Signed], T], signed: Signed, look: Callable[[], None]) -> T:
    """Return the curator's answer; raise Overdue if it takes too long. A curator in this process has no timeout.

    ``look`` is called from time to time while waiting for another process; it ends the wait by raising.
    """
    if not isinstance(getattr(ask, "__self__", None), Client):
        return ask(signed)
    try:
        with time_limit(patience, look):
            return ask(signed)
    except DeadlinePassed:
        raise DeadlinePassed(
            f"the curator has not answered for {patience:,.0f} s, the patience that this referee has with it "
            "(--curator-patience): the run ends, and what it has released stays released"
        ) from None


def answered(
    ask: Callable[[Signed], Signed],
    signed: Signed,
    check: Callable[[Signed], T],
    patience: float,
    *,
    agreed: bool,
    look: Callable[[], None],
    say: Callable[[str], None],
) -> tuple[Signed, T]:
    """Return the curator's answer and the result of ``check``; retry as long as that may help.

    A repeated request is the same operation, so repeating it costs nothing. A curator that cannot store what it must
    store first is retried, and so is one that is unavailable, once it has agreed to the run. An answer that fails
    ``check``, or that is forged or malformed, is retried :data:`DOUBTS` times: a bit may have changed in transit.

    ``look`` is called before and after each pause, and while waiting for an answer; it ends the wait by raising.
    PeerUnavailable: the curator is away before it has agreed, or has kept one request open beyond the patience.
    """
    reported, doubts = False, 0
    while True:
        try:
            reply = within(patience, ask, signed, look)
            return reply, check(reply)
        except DeadlinePassed as overdue:
            raise PeerUnavailable(str(overdue)) from None
        except (CannotWrite, PeerUnavailable) as error:
            if isinstance(error, PeerUnavailable) and not agreed:
                raise
            if not reported:
                say(f"the run waits for the curator: {error.detail}")
            reported = True
            look()
            time.sleep(PAUSE)
            look()
        except (Forged, BadMessage, PeerMisbehaved) as error:
            doubts += 1
            if doubts > DOUBTS:
                raise
            say(f"the curator is asked again: {error.detail}")
            time.sleep(DOUBT)
