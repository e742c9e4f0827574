"""What a run agrees with the curator: its terms, each operation's request and release, live and in the audit."""

from __future__ import annotations

from typing import Any

from common.core.errors import BadMessage, PeerMisbehaved
from common.crypto.identity import Signed, verify
from common.log.entries import Head
from common.log.witness import behind
from common.operations.operation import Operation, declared_event
from common.scenario.resolved import parse_resolved
from common.wire import messages


def operation_request(run: str, digest: str, number: int, operation: Operation[Any], seen: Head) -> messages.Perform:
    """Return the one request that message ``number`` of a run's protocol makes of the curator.

    ``seen`` is the head of the curator's ledger in its reply before this one.
    """
    return messages.Perform(run=run, digest=digest, operation_id=str(number), operation=operation.wire(), seen=seen)


CURATORS = (
    "the key of the curator that agreed to this run: another curator answers at its address, or it has lost its key; "
    "start the curator with the state directory of this run"
)
"""Whose key signs what the curator says, and what is to be done if another key does."""


def check_release(signed: Signed, request: messages.Perform, key: str) -> messages.Release:
    """Return the release that a curator has sent if it signed it for exactly this request.

    Raises
    ------
    Forged
        If another key signed.
    PeerMisbehaved
        If it answers another request, its ledger does not hold what it showed before, or it declares no privacy event:
        an audit could not read what the run has cost.
    """
    release = messages.Release.parse(verify(signed, messages.Release.KIND, key, CURATORS))
    expected = (request.run, request.digest, request.operation_id, request.fingerprint())
    if (release.run, release.digest, release.operation_id, release.request) != expected:
        raise PeerMisbehaved(f"the curator's release does not answer operation {request.operation_id}")
    if not release.ledger.extends(request.seen):
        raise PeerMisbehaved(behind("the referee", request.seen, release.ledger.head))
    try:
        declared_event(release.result)
    except BadMessage as error:
        raise PeerMisbehaved(
            f"the curator's release of operation {request.operation_id} does not say what it costs: {error.detail}"
        ) from None
    return release


def check_terms(signed: Signed, configuration: messages.Configuration) -> messages.Terms:
    """Return the curator's terms if it signed them for exactly this configuration.

    Raises
    ------
    Forged
        If the signature does not verify.
    PeerMisbehaved
        If they are for another configuration, or promise something else than its scenario says.
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
