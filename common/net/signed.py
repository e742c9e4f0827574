"""Signed messages in the form in which they come by the million, read without parsing them as JSON.

Enrolments, polls and individual reports have few fields, all of them flat. In the usual form (fields of the envelope as
:meth:`~common.crypto.identity.Signed.raw` writes them, the message in canonical JSON) a pattern finds the fields, and
the bytes that were signed are there as they came. The patterns match canonical JSON only: what they find in it is what
a parser would. Everything else is parsed as any signed message is, with the same result or the same problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from common.core import canonical
from common.core.values import Value
from common.crypto.identity import Signed
from common.net.messages import Enrolment, Poll, Report

Message = TypeVar("Message", bound=Value)

_ENVELOPE = re.compile(
    rb'\{"kind":"(enrolment|poll|report)","message":(\{[^{}]{1,600}\}),'
    rb'"key":"([0-9a-f]{64})","signature":"([0-9a-f]{128})"\}'
)
_ENROLMENT = re.compile(rb'\{"agents":[1-9][0-9]{0,8}\}')
_POLL = re.compile(rb'\{"participant":"[0-9a-f]{64}"\}')
_REPORT = re.compile(
    rb'\{"answer":(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,22})?),"assignment":"[0-9a-f]{64}","digest":"[0-9a-f]{64}",'
    rb'"question":(?:0|[1-9][0-9]{0,8}),"report_id":"[0-9a-f]{32}","run":"[0-9a-zA-Z_-]{1,64}"\}'
)


class SignedBytes:
    """A signed message in the usual form; nobody has verified its signature yet.

    Attributes:
        kind, key, signature: As in :class:`~common.crypto.identity.Signed`.
        payload: What was signed, in canonical JSON.
        value: What it says.
    """

    __slots__ = ("key", "kind", "payload", "signature", "value")

    def __init__(self, kind: str, payload: bytes, key: str, signature: str, value: Enrolment | Poll | Report) -> None:
        self.kind = kind
        self.payload = payload
        self.key = key
        self.signature = signature
        self.value = value

    @property
    def message(self) -> dict[str, Any]:
        """The message as JSON."""
        return self.value.wire()


AnySigned = Signed | SignedBytes


def signed_bytes(kind: str, payload: bytes, key: str, signature: str) -> AnySigned:
    """Return a signed message of its parts: of its payload in canonical JSON.

    Raises:
        BadMessage: If the payload is no JSON object, or a part is none of a signed message.
    """
    find = _VALUES.get(kind.encode())
    value = None if find is None else find(payload)
    if value is not None:
        return SignedBytes(kind, payload, key, signature, value)
    return Signed.parse({"kind": kind, "message": canonical.decode(payload), "key": key, "signature": signature})


def read(raw: bytes) -> AnySigned:
    """Read a signed message.

    Raises:
        BadMessage: If it is none. (The signature itself is not verified here.)
    """
    found = _ENVELOPE.fullmatch(raw)
    if found is not None:
        kind, payload, key, signature = found.groups()
        value = _VALUES[kind](payload)
        if value is not None:
            return SignedBytes(kind.decode("ascii"), payload, key.decode("ascii"), signature.decode("ascii"), value)
    return Signed.parse(canonical.decode(raw))


def payload(signed: AnySigned) -> bytes:
    """Return what was signed, in canonical JSON.

    Raises:
        BadMessage: If it has no canonical form.
    """
    return signed.payload if isinstance(signed, SignedBytes) else canonical.encode(signed.message)


def parse_payload(signed: AnySigned, kind: type[Message]) -> Message:
    """Return what a signed message of a kind says.

    Raises:
        BadMessage: If it is no message of the kind.
    """
    if isinstance(signed, SignedBytes) and isinstance(signed.value, kind):
        return signed.value
    return kind.parse(signed.message)


def field(signed: AnySigned, name: str) -> object:
    """Return one field of a signed message as it came, None if there is none of that name."""
    return getattr(signed.value, name, None) if isinstance(signed, SignedBytes) else signed.message.get(name)


def report_payload(report_id: str, run: str, digest: str, question: int, assignment: str, answer: float) -> bytes:
    """Return an individual's report in canonical JSON, of fields that are valid ones of a report."""
    return b'{"answer":%b,"assignment":"%b","digest":"%b","question":%d,"report_id":"%b","run":"%b"}' % (
        canonical.number_text(answer).encode("ascii"),
        assignment.encode("ascii"),
        digest.encode("ascii"),
        question,
        report_id.encode("ascii"),
        run.encode("ascii"),
    )


def _enrolment(payload: bytes) -> Enrolment | None:
    return None if _ENROLMENT.fullmatch(payload) is None else Enrolment.model_validate_json(payload)


def _poll(payload: bytes) -> Poll | None:
    return None if _POLL.fullmatch(payload) is None else Poll.model_validate_json(payload)


def _report(payload: bytes) -> Report | None:
    found = _REPORT.fullmatch(payload)
    if found is None or canonical.number_text(float(found[1])).encode("ascii") != found[1]:
        return None  # canonical JSON has one way to write a number
    return Report.model_validate_json(payload)


_VALUES: dict[bytes, Callable[[bytes], Enrolment | Poll | Report | None]] = {
    b"enrolment": _enrolment,
    b"poll": _poll,
    b"report": _report,
}
