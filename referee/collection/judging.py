"""Judge a report: one function, for the referee that takes it and for the audit that reads it again.

A report passes in two steps: its signature is verified (:func:`claims`), then it is judged against the question as it
was asked (:class:`Asked`). Signatures are made and verified by libsodium, which holds no interpreter lock meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray, Indices
from common.core.errors import (
    AlreadyAnswered,
    BadMessage,
    ConfigurationMismatch,
    Forged,
    NotFound,
    PatternViolation,
    TandemError,
)
from common.core.machine import on_all_cores, processors
from common.crypto.identity import Identity, covered, verifies
from common.local.packing import AnswerKind, count_answers, pack_one, unpack_one
from common.local.queries.query import Query
from common.log.receipts import receipt_for
from common.net import messages as signed_messages
from common.net.messages import AnySigned, Assignment, MassAssignment, PackedReport, Report, pack_index, report_payload
from referee.collection.order import AnyBatch, MassBatch, assign
from referee.tables import StoredReport

MANY = 1024  # so many for each core are worth a thread on it: what an audit verifies, and no group of requests


def verified(keys: Sequence[bytes], payloads: Sequence[bytes], signatures: Sequence[bytes]) -> AnyArray:
    """Tell of each payload whether its signature verifies under its key (Ed25519).

    A key has 32 bytes, a signature 64. Returns shape (len(keys),), bool.
    """
    count = len(keys)
    parts = min(processors(), count // MANY) or 1
    edges = [count * part // parts for part in range(parts + 1)]
    good = np.zeros(count, dtype=np.bool_)

    def work(part: int) -> None:
        for i in range(edges[part], edges[part + 1]):
            good[i] = verifies(keys[i], payloads[i], signatures[i])

    on_all_cores(work, range(parts))
    return good


@dataclass(frozen=True, eq=False)
class Claim:
    """A report that its participant has signed; whether it answers anything is not known yet.

    ``signed`` is as it came, ``payload`` what was signed, in canonical JSON. ``body`` has the packed answers that came
    with a host's report; an individual's are in the report itself.
    """

    signed: AnySigned
    payload: bytes
    report: Report | PackedReport
    body: bytes | None

    @property
    def key(self) -> str:
        return self.signed.key

    def packed(self, kind: AnswerKind) -> bytes:
        """Return the packed answers; BadMessage if an individual's is none of the kind."""
        if isinstance(self.report, PackedReport):
            return self.body or b""
        return pack_one(self.report.answer, kind)


def read(signed: AnySigned, payload: bytes, body: bytes | None) -> Claim:
    """Return what a message claims whose signature was verified (``payload`` is the message in canonical JSON).

    ``body`` has the packed answers of a hosted population; None of an individual. BadMessage says that it is no report,
    or that the body is another one than was signed.
    """
    if body is None:
        return Claim(signed, payload, signed_messages.parse_payload(signed, Report), None)
    report = PackedReport.parse(signed.message)
    if hashlib.sha256(body).hexdigest() != report.body_sha256:
        raise BadMessage("the packed body does not match the SHA-256 in its signed header")
    return Claim(signed, payload, report, body)


def check_configuration(report: Report | PackedReport, digest: str) -> None:
    """Refuse a report under another configuration than its run's."""
    if report.digest != digest:
        raise ConfigurationMismatch(
            f"the report names configuration {report.digest[:12]}..., the run has {digest[:12]}..."
        )


def judge(claim: Claim, asked: Asked, known: StoredReport | None = None, still_open: bool = True) -> StoredReport:
    """Return a report as it is to be stored, if it is an answer to the question; ``known`` itself if it repeats that.

    ``known`` is what the participant has reported on it before, ``still_open`` whether the question takes answers.

    A problem is the first of these: it is under another configuration (ConfigurationMismatch), on another question
    (NotFound), none of the answers that the mechanism gives (BadMessage); another one than before (AlreadyAnswered);
    too late, or by somebody who was not asked (PatternViolation); for another number of agents (BadMessage), to another
    assignment (ConfigurationMismatch); answers that are packed wrongly (BadMessage).
    """
    report, key, number = claim.report, claim.key, asked.number
    check_configuration(report, asked.digest)
    if (report.run, report.question) != (asked.run, number):
        raise NotFound(f"this is question {number} of run {asked.run!r}, not {report.question}")
    body = claim.packed(asked.kind)
    if known is not None:
        if (known.signature.hex(), known.body, payload(known, asked)) != (claim.signed.signature, body, claim.payload):
            raise AlreadyAnswered(f"this agent has already answered question {number}")
        return known
    if not still_open:
        raise closed(number)
    slots = check_asked(report, key, asked)
    fingerprint = asked.fingerprint(key, slots)
    if report.assignment != fingerprint:
        raise ConfigurationMismatch(f"the report answers another assignment than that of question {number}")
    individual = isinstance(report, Report)
    answered = 1 if individual else count_answers(body, len(slots), asked.kind)
    report_id, signature = bytes.fromhex(report.report_id), bytes.fromhex(claim.signed.signature)
    accepted = StoredReport(int(slots[0]), individual, report_id, answered, signature, body)
    usual = _payload(accepted, asked, key, fingerprint) == claim.payload
    return accepted if usual else replace(accepted, message=claim.payload)


def asked_slots(key: str, asked: Asked) -> Indices | range:
    """Return the slots that a participant was asked about; PatternViolation if there are none."""
    slots = asked.slots(key)
    if len(slots) == 0:
        raise not_asked(asked.number)
    return slots


def not_asked(number: int) -> PatternViolation:
    """Return the refusal of a participant whom a question was not put to."""
    return PatternViolation(f"this agent was not asked question {number}")


def check_asked(report: Report | PackedReport, key: str, asked: Asked) -> Indices | range:
    """Return the slots that a participant was asked about, if it reports on as many agents; else BadMessage."""
    slots = asked_slots(key, asked)
    people = 1 if isinstance(report, Report) else report.people
    if people != len(slots):
        raise BadMessage(f"question {asked.number} asked {len(slots)} agents of this participant, found {people}")
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


_END = b'"}'  # what stands behind an assignment's slots in canonical JSON


@dataclass(frozen=True, eq=False)
class Asked:
    """A question to some agents; ``form`` works out whom it went to, and is called once, when that is needed."""

    run: str
    digest: str
    number: int
    query: Query
    kind: AnswerKind
    form: Callable[[], AnyBatch]
    _digests: dict[str, str] = field(default_factory=dict)
    """Of what hosts are asked, by their keys: the assignment of very many people is written once, and hashed once."""

    @cached_property
    def batch(self) -> AnyBatch:
        return self.form()

    def slots(self, key: str) -> Indices | range:
        return self.batch.slots(key)

    def assignment_kind(self, key: str) -> str:
        """Return as which kind of message a participant is asked: a host, of very many, by a mask."""
        mass = isinstance(self.batch, MassBatch) and self.batch.owner(int(self.slots(key)[0])).agents > 1
        return MassAssignment.KIND if mass else Assignment.KIND

    def assignment(self, key: str, slots: Indices | range | None = None) -> bytes:
        """Return what a participant is asked (:func:`referee.collection.order.assign`), in canonical JSON.

        ``slots`` are those of its agents, if they are known already.
        """
        slots = self.slots(key) if slots is None else slots
        if len(slots) == 1 and self.batch.roster.alone(self.batch.position(int(slots[0]))):
            return self._individual + pack_index(int(slots[0])).encode() + _END
        found = canonical.encode(assign(self.batch, key, self.run, self.digest, self.number, self.query).wire())
        self._digests[key] = hashlib.sha256(found).hexdigest()
        return found

    def fingerprint(self, key: str, slots: Indices | range | None = None) -> str:
        """Return the digest of what a participant is asked; parameters are those of :meth:`assignment`."""
        if key not in self._digests:
            payload = self.assignment(key, slots)
            return self._digests.get(key) or hashlib.sha256(payload).hexdigest()
        return self._digests[key]

    @cached_property
    def _individual(self) -> bytes:
        """The beginning of what every individual is asked; what differs is its slot, which comes last."""
        first_index = pack_index(0)
        asked = Assignment(
            run=self.run,
            digest=self.digest,
            question=self.number,
            query=self.query,
            people=first_index,
            slots=first_index,
        )
        encoded = canonical.encode(asked.wire())
        end = first_index.encode() + _END
        if not encoded.endswith(end):
            raise AssertionError("an assignment's slots are not its last field")
        return encoded[: -len(end)]


class Sent(NamedTuple):
    """A report as it came: a signed message, and the packed answers of a hosted population (None: an individual)."""

    signed: AnySigned
    body: bytes | None = None


def claims(sent: Sequence[Sent | TandemError]) -> list[Claim | TandemError]:
    """Return what each report claims that its participant has signed; else why it is none, which may be known already.

    Nothing is looked up for that, so it may be done while other reports are stored.
    """
    found: list[Claim | TandemError] = []
    for each in sent:
        if isinstance(each, TandemError):
            found.append(each)
            continue
        signed, body = each
        try:
            kind = Report.KIND if body is None else PackedReport.KIND
            found.append(read(signed, verified_payload(signed, kind), body))
        except TandemError as error:
            found.append(error)
    return found


def verified_payload(signed: AnySigned, kind: str) -> bytes:
    """Return the canonical JSON of a message that is of a kind and signed by its key; else Forged."""
    if signed.kind != kind:
        raise Forged(f"expected a signed {kind!r}, found {signed.kind!r}")
    try:
        encoded = signed.payload
    except TandemError as error:
        raise Forged(error.detail) from None
    if not verifies(bytes.fromhex(signed.key), covered(kind, encoded), bytes.fromhex(signed.signature)):
        raise Forged(f"the signature of this {kind!r} does not verify under key {signed.key[:16]}...")
    return encoded


def receipts(
    referee: Identity, claimed: Sequence[Claim | TandemError], problems: Sequence[TandemError | None], now: int
) -> list[bytes | TandemError]:
    """Return the receipt of each report that was stored, signed, in JSON; of the others the problem."""
    found: list[bytes | TandemError] = []
    for claim, problem in zip(claimed, problems, strict=True):
        if problem is not None or isinstance(claim, TandemError):
            found.append(problem or Forged("not verified"))
        else:
            report = claim.report
            found.append(receipt_for(referee, report.run, report.question, claim.signed.signature, now))
    return found
