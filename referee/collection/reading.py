"""Signed messages of a group: what each says, if whom it names has signed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from common.core.errors import Forged, TandemError
from common.crypto.identity import covered
from common.wire import sealed
from common.wire.messages import PackedReport, Report
from common.wire.sealed import AnySigned
from referee.collection.judging import Claim, Refusal, read
from referee.collection.signatures import verified


class Sent(NamedTuple):
    """A report as it came: a signed message, and the packed answers of a hosted population (None: an individual)."""

    signed: AnySigned
    body: bytes | None = None


def claims(sent: Sequence[Sent]) -> list[Claim | TandemError]:
    """Return what each report claims that its participant has signed; else why it is none.

    Nothing is looked up for that, so it may be done while other reports are stored.
    """
    kinds = [Report.KIND if report.body is None else PackedReport.KIND for report in sent]
    found: list[Claim | TandemError] = [Forged("nobody has looked at this")] * len(sent)
    for kind in set(kinds):
        places = [i for i, of_kind in enumerate(kinds) if of_kind == kind]
        for i, payload in zip(places, payloads([sent[i].signed for i in places], kind), strict=True):
            found[i] = payload if isinstance(payload, Forged) else _claim(sent[i], payload)
    return found


def _claim(sent: Sent, payload: bytes) -> Claim | TandemError:
    try:
        return read(sent.signed, payload, sent.body)
    except Refusal as refusal:
        return refusal.problem
    except TandemError as error:
        return error


def payloads(group: Sequence[AnySigned], kind: str) -> list[bytes | Forged]:
    """Return the canonical JSON of each message that is of a kind and signed by its key; else why it is not."""
    encoded: list[bytes | TandemError] = [_payload(signed, kind) for signed in group]
    whole = [i for i, found in enumerate(encoded) if isinstance(found, bytes)]
    good = verified(
        [bytes.fromhex(group[i].key) for i in whole],
        [covered(kind, found) for found in encoded if isinstance(found, bytes)],
        [bytes.fromhex(group[i].signature) for i in whole],
    )
    for i, fine in zip(whole, good.tolist(), strict=True):
        if not fine:
            encoded[i] = Forged(f"the signature of this {kind!r} does not verify under key {group[i].key[:16]}...")
    return [found if isinstance(found, bytes) else Forged(found.detail) for found in encoded]


def _payload(signed: AnySigned, kind: str) -> bytes | TandemError:
    if signed.kind != kind:
        return Forged(f"expected a signed {kind!r}, found {signed.kind!r}")
    try:
        return sealed.payload(signed)
    except TandemError as error:
        return error
