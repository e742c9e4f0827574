"""Judge a report: one function, for the referee that takes it and for the audit that reads it again.

What is judged is the signed header, the body, the question as it was asked and what is known of its reports so far. So
an audit accepts exactly what a referee may accept; each says in words of its own why it refuses.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

from common.core import canonical
from common.core.arrays import Indices
from common.core.errors import (
    AlreadyAnswered,
    BadMessage,
    ConfigurationMismatch,
    NotFound,
    PatternViolation,
    TandemError,
)
from common.local.packing import AnswerKind, count_answers, pack_one, unpack_one
from common.wire import sealed
from common.wire.messages import PackedReport, Report
from common.wire.sealed import AnySigned, Sealed, report_payload
from referee.collection.asked import Asked
from referee.state.values import StoredReport

Reason = Literal[
    "another body",
    "another configuration",
    "another question",
    "already answered",
    "closed",
    "not asked",
    "another number of agents",
    "another assignment",
]


class Refusal(Exception):
    """A report is not acceptable.

    Attributes
    ----------
    reason
        Its name.
    problem
        What a referee answers to whoever sent it.
    """

    def __init__(self, reason: Reason, problem: TandemError) -> None:
        super().__init__(problem.detail)
        self.reason = reason
        self.problem = problem


@dataclass(frozen=True, eq=False)
class Claim:
    """A report that its participant has signed; whether it answers anything is not known yet.

    Attributes
    ----------
    signed
        As it came.
    payload
        What was signed, in canonical JSON.
    report
        What it says.
    body
        The packed answers that came with it; None of an individual's, which are in the report itself.
    """

    signed: AnySigned
    payload: bytes
    report: Report | PackedReport
    body: bytes | None

    @property
    def key(self) -> str:
        """The participant that signed it."""
        return self.signed.key

    @property
    def people(self) -> int:
        """Number of agents that it speaks for."""
        return 1 if isinstance(self.report, Report) else self.report.people

    def packed(self, kind: AnswerKind) -> bytes:
        """Return the packed answers.

        Raises
        ------
        BadMessage
            If an individual's is none of the kind.
        """
        if isinstance(self.report, PackedReport):
            return self.body or b""
        return pack_one(self.report.answer, kind)


def read(signed: AnySigned, payload: bytes, body: bytes | None) -> Claim:
    """Return what a message claims whose signature was verified (``payload`` is the message in canonical JSON).

    Parameters
    ----------
    body
        The packed answers of a hosted population; None of an individual.

    Raises
    ------
    BadMessage
        If it is no report.
    Refusal
        If the body is another one than was signed.
    """
    if body is None:
        return Claim(signed, payload, sealed.said(signed, Report), None)
    report = PackedReport.parse(signed.message)
    if hashlib.sha256(body).hexdigest() != report.body_sha256:
        problem = BadMessage("the packed body does not match the SHA-256 in its signed header")
        raise Refusal("another body", problem)
    return Claim(signed, payload, report, body)


def check_configuration(report: Report | PackedReport, digest: str) -> None:
    """Refuse a report under another configuration than its run's.

    Raises
    ------
    Refusal
        If it is.
    """
    if report.digest != digest:
        problem = ConfigurationMismatch(
            f"the report names configuration {report.digest[:12]}..., the run has {digest[:12]}..."
        )
        raise Refusal("another configuration", problem)


def judge(claim: Claim, asked: Asked, known: StoredReport | None = None, still_open: bool = True) -> StoredReport:
    """Return a report as it is to be stored, if it is an answer to the question; ``known`` itself if it repeats that.

    Parameters
    ----------
    claim
        Signed by its participant (:func:`read`).
    asked
        The question.
    known
        What the participant has reported on it before.
    still_open
        Whether the question takes answers.

    Raises
    ------
    Refusal, BadMessage
        For the first reason of these: it is under another configuration, on another question, none of the answers that
        the mechanism gives; another one than before; too late; by somebody who was not asked, for another number of
        agents, to another assignment; answers that are packed wrongly.
    """
    report, key, number = claim.report, claim.key, asked.number
    check_configuration(report, asked.digest)
    if (report.run, report.question) != (asked.run, number):
        problem: TandemError = NotFound(f"this is question {number} of run {asked.run!r}, not {report.question}")
        raise Refusal("another question", problem)
    body = claim.packed(asked.kind)
    if known is not None:
        if (known.signature.hex(), known.body, payload(known, asked)) != (claim.signed.signature, body, claim.payload):
            problem = AlreadyAnswered(f"this agent has already answered question {number}")
            raise Refusal("already answered", problem)
        return known
    if not still_open:
        raise Refusal("closed", closed(number))
    slots = check_asked(report, key, asked)
    fingerprint = asked.fingerprint(key, slots)
    if report.assignment != fingerprint:
        problem = ConfigurationMismatch(f"the report answers another assignment than that of question {number}")
        raise Refusal("another assignment", problem)
    individual = isinstance(report, Report)
    answered = 1 if individual else count_answers(body, len(slots), asked.kind)
    report_id, signature = bytes.fromhex(report.report_id), bytes.fromhex(claim.signed.signature)
    accepted = StoredReport(int(slots[0]), individual, report_id, answered, signature, body)
    return accepted if _as_usual(claim, accepted, asked, fingerprint) else replace(accepted, message=claim.payload)


def _as_usual(claim: Claim, accepted: StoredReport, asked: Asked, fingerprint: str) -> bool:
    """Tell whether what was signed can be rebuilt from what is stored of it and from its question."""
    if isinstance(claim.signed, Sealed) and isinstance(claim.report, Report):
        # It came in canonical JSON with these fields, of which all but the answer were compared with the question.
        return repr(unpack_one(accepted.body, asked.kind)) == repr(claim.report.answer)
    return _payload(accepted, asked, claim.key, fingerprint) == claim.payload


def asked_slots(key: str, asked: Asked) -> Indices | range:
    """Return the slots that a participant was asked about.

    Raises
    ------
    Refusal
        If there are none.
    """
    slots = asked.slots(key)
    if len(slots) == 0:
        raise Refusal("not asked", PatternViolation(f"this agent was not asked question {asked.number}"))
    return slots


def check_asked(report: Report | PackedReport, key: str, asked: Asked) -> Indices | range:
    """Return the slots that a participant was asked about, if it reports on as many agents.

    Raises
    ------
    Refusal
        If it does not, or was not asked.
    """
    slots = asked_slots(key, asked)
    people = 1 if isinstance(report, Report) else report.people
    if people != len(slots):
        problem = BadMessage(f"question {asked.number} asked {len(slots)} agents of this participant, found {people}")
        raise Refusal("another number of agents", problem)
    return slots


def payload(stored: StoredReport, asked: Asked) -> bytes:
    """Return what the participant of a stored report has signed, in canonical JSON: rebuilt from its question."""
    if stored.message:
        return stored.message
    return _payload(stored, asked, asked.batch.owner(stored.slot).key)


def _payload(stored: StoredReport, asked: Asked, key: str, fingerprint: str = "") -> bytes:
    report_id, assignment = stored.report_id.hex(), fingerprint or asked.fingerprint(key)
    if stored.individual:
        answer = unpack_one(stored.body, asked.kind)
        return report_payload(report_id, asked.run, asked.digest, asked.number, assignment, answer)
    header = {
        "report_id": report_id,
        "run": asked.run,
        "digest": asked.digest,
        "question": asked.number,
        "people": len(asked.slots(key)),
        "assignment": assignment,
        "body_sha256": hashlib.sha256(stored.body).hexdigest(),
    }
    return canonical.encode(header)


def closed(number: int) -> PatternViolation:
    """Return the problem of a report that comes too late."""
    return PatternViolation(f"question {number} is closed")
