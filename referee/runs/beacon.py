"""The beacon of a run, live and in the audit: witnesses' words about its beginning, then the curator's share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.core.errors import BadMessage, PeerMisbehaved
from common.crypto.identity import Identity, Signed, verify
from common.log import beacon
from common.log.receipts import StoredCheckpoint
from common.wire.messages import Configuration, Terms
from referee.runs.operations import CURATORS
from referee.runs.ordering import Given


def draw(
    words: StoredCheckpoint,
    configuration: Configuration,
    terms: Terms,
    identity: Identity,
    open_share: Callable[[Signed, Callable[[Signed], object]], Signed],
    curator: str,
) -> dict[str, Any]:
    """Return the transcript entry of a run's beacon: its words, and the share that the curator opens to them.

    Parameters
    ----------
    words
        The checkpoint of the first entries, with the words of all witnesses.
    open_share
        Sends the request to the curator, and checks its reply.
    curator
        Its key.

    Raises
    ------
    Forged, BadMessage, PeerMisbehaved
        If a witness's word is none, or the share is not the one that the terms are bound to.
    """
    body: dict[str, Any] = {"words": words.wire()}
    if terms.share_sha256 is None:
        beacon_of(words, configuration)
        return body
    asked = beacon.RevealRequest(run=configuration.run, digest=configuration.fingerprint(), words=words)

    def held(said: Signed) -> dict[str, Any]:
        return {**body, "share": said.wire()}

    request = identity.sign(asked.KIND, asked.wire())
    return held(open_share(request, lambda said: check_beacon(held(said), configuration, terms, curator)))


def beacon_of(words: StoredCheckpoint, configuration: Configuration) -> str:
    """Return the beacon of the run with a configuration, as :func:`common.log.beacon.beacon_value` says."""
    return beacon.beacon_value(
        words,
        referee=configuration.referee,
        run=configuration.run,
        digest=configuration.fingerprint(),
        witnesses=configuration.beacon,
    )


def check_beacon(body: dict[str, Any], configuration: Configuration, terms: Terms, curator: str) -> Given:
    """Return what others than the referee have given to a run's order, from the entry of its beacon.

    Raises
    ------
    Forged, BadMessage
        If a word of a witness, or the share, is not signed by who should have signed it.
    PeerMisbehaved
        If the share was opened to another beacon, or is not the one that the terms are bound to.
    """
    value = beacon_of(StoredCheckpoint.parse(body["words"]), configuration)
    if terms.share_sha256 is None:
        if "share" in body:
            raise BadMessage("the curator has bound itself to no share, and one is opened")
        return Given(None, value)
    if "share" not in body:
        raise BadMessage("the curator's share is not opened")
    signed = Signed.parse(body["share"])
    share = beacon.RevealedShare.parse(verify(signed, beacon.RevealedShare.KIND, curator, CURATORS))
    if (share.run, share.digest, share.beacon) != (configuration.run, configuration.fingerprint(), value):
        raise PeerMisbehaved("the curator's share was opened for another beacon or configuration")
    if beacon.commitment_to(share.share) != terms.share_sha256:
        raise PeerMisbehaved("the curator opens another share than its terms are bound to")
    return Given(share.share, value)
