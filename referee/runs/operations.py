"""What a run agrees with the curator: its terms, each operation's request and release, live and in the audit."""

from __future__ import annotations

from typing import Any

from common.core.errors import PeerMisbehaved
from common.scenario.resolved import parse_resolved
from common.vocabulary.operations.base import Operation
from common.wire import messages
from common.wire.identity import Signed, verify


def operation_request(run: str, digest: str, number: int, operation: Operation[Any]) -> messages.Perform:
    """Return the one request that message ``number`` of a run's protocol makes of the curator."""
    return messages.Perform(run=run, digest=digest, operation_id=str(number), operation=operation.wire())


def check_release(body: dict[str, Any], request: messages.Perform, key: str) -> dict[str, Any]:
    """Return the result in an operation's transcript entry if the curator signed it for exactly this request.

    Raises
    ------
    Forged
        If another key signed.
    PeerMisbehaved
        If it answers another request.
    """
    release = messages.Release.parse(verify(Signed.parse(body["release"]), messages.Release.KIND, key))
    expected = (request.run, request.digest, request.operation_id, request.fingerprint())
    if (release.run, release.digest, release.operation_id, release.request) != expected:
        raise PeerMisbehaved(f"the curator's release does not answer operation {request.operation_id}")
    return release.result


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
    return terms
