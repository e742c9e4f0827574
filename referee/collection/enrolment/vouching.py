"""Who vouches for participants: what a registrar takes, what the run folder holds of it, and what an audit makes of it.

The file ``vouchers`` of a run folder has, of each participant that somebody vouches for, in the order of their numbers:
its first agent (64 bits), the length (16 bits, both little-endian) and the voucher
(:func:`common.crypto.vouching.stored`). The transcript's first entry has its SHA-256.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from typing import Any

from common.core.errors import BadMessage, NotVouched
from common.crypto.identity import Signed
from common.crypto.vouching import Credential, Grant, IssuerKey, check_credential, check_grant, read_voucher, stored
from common.wire.messages import Enrolment

_HEAD = struct.Struct("<QH")
MAX_VOUCHER = (1 << 16) - 1


def vouched(voucher: Credential | Signed, key: str, agents: int, issuers: Sequence[IssuerKey]) -> IssuerKey:
    """Return the issuer that vouches for a participant by what it shows: the one judge, of enrolments and in audits.

    Raises
    ------
    NotVouched
        If none of these issuers does.
    """
    if isinstance(voucher, Signed):
        return check_grant(voucher, key, agents, issuers)[0]
    if agents != 1:
        raise NotVouched(f"a credential is for one person, the host brings {agents:,}: it needs a grant")
    return check_credential(voucher, key, issuers)


def shown(enrolment: Enrolment, key: str, issuers: Sequence[IssuerKey]) -> bytes:
    """Return what an enrolment shows of an issuer, checked and in the form in which it is kept.

    Raises
    ------
    NotVouched
        If it shows nothing, or none of these issuers vouches for it so.
    """
    voucher = enrolment.credential if enrolment.credential is not None else enrolment.grant
    if voucher is None:
        what = (
            "a credential (local-agent credential)" if enrolment.agents == 1 else "a grant (local-agent host --grant)"
        )
        raise NotVouched(f"this referee enrols nobody for whom no issuer vouches: get {what} of one of its issuers")
    vouched(voucher, key, enrolment.agents, issuers)
    kept = stored(voucher)
    if len(kept) > MAX_VOUCHER:
        raise BadMessage(f"a grant has at most {MAX_VOUCHER:,} bytes")
    return kept


def grant_of(voucher: Credential | Signed) -> Grant | None:
    """Return what a host's voucher says; a person's says nothing."""
    return Grant.parse(voucher.message) if isinstance(voucher, Signed) else None


def packed(vouchers: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield the file of vouchers in pieces, given each with the first agent of whom it is for."""
    for first, voucher in vouchers:
        yield _HEAD.pack(first, len(voucher)) + voucher


def unpacked(file: BufferedIOBase) -> Iterator[tuple[int, Credential | Signed]]:
    """Read what :func:`packed` has written, one voucher after the other.

    Raises
    ------
    BadMessage
        If it is no such file.
    """
    last = -1
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise BadMessage("the file of vouchers ends in the middle of one")
        first, length = _HEAD.unpack(head)
        voucher = file.read(length)
        if len(voucher) < length or first <= last:
            raise BadMessage("the file of vouchers ends in the middle of one, or is not in the order of agents")
        last = first
        yield first, read_voucher(voucher)


def announced(vouchers: Iterable[tuple[int, bytes]], issuers: Sequence[IssuerKey]) -> dict[str, Any] | None:
    """Return what a transcript's first entry says of vouchers; None where nobody vouches for anybody."""
    digest, count = hashlib.sha256(), 0
    for piece in packed(vouchers):
        digest.update(piece)
        count += 1
    if not count and not issuers:
        return None
    return {"issuers": [issuer.wire() for issuer in issuers], "count": count, "sha256": digest.hexdigest()}
