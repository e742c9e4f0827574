"""Signed messages of a group: what each says, if whom it names has signed it."""

from __future__ import annotations

from collections.abc import Sequence

from common.core.errors import Forged, TandemError
from common.wire import sealed
from common.wire.identity import covered
from common.wire.sealed import AnySigned
from referee.collection.signatures import verified


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
