"""Judge a report with one function, which the referee uses when it takes the report and the audit when it rereads it.

There are two steps: the signature is verified (:func:`claims`), then the report is judged against the question as it
was asked (:class:`PendingQuestion`). libsodium makes and verifies signatures, and releases the interpreter lock
meanwhile.
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

MANY = 1024  # signatures per core from which a thread pays off: an audit has as many, a group of requests does not


def verified(keys: Sequence[bytes], payloads: Sequence[bytes], signatures: Sequence[bytes]) -> AnyArray:
    """Return for each payload whether its signature verifies under its key (Ed25519).

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
    """A report that its participant has signed and that is not yet judged against a question.

    ``signed`` is the message as received, ``payload`` what was signed, in canonical JSON. ``body`` holds the packed
    answers of a host's report; an individual's are in the report itself.
    """

    signed: AnySigned
    payload: bytes
    report: Report | PackedReport
    body: bytes | None

    @property
    def key(self) -> str:
        return self.signed.key

    def packed(self, kind: AnswerKind) -> bytes:
        """Return the packed answers; BadMessage if an individual's answer is not of this kind."""
        if isinstance(self.report, PackedReport):
            return self.body or b""
        return pack_one(self.report.answer, kind)


def read(signed: AnySigned, payload: bytes, body: bytes | None) -> Claim:
    """Return the claim of a message whose signature was verified; ``payload`` is the message in canonical JSON.

    ``body`` holds the packed answers of a hosted population, and is None for an individual. BadMessage if the message
    is no report, or the body is not the one that was signed.
    """
    if body is None:
        return Claim(signed, payload, signed_messages.parse_payload(signed, Report), None)
    report = PackedReport.parse(signed.message)
    if hashlib.sha256(body).hexdigest() != report.body_sha256:
        raise BadMessage("the packed body does not match the SHA-256 in its signed header")
    return Claim(signed, payload, report, body)


def check_configuration(report: Report | PackedReport, digest: str) -> None:
    """Refuse a report whose configuration is not that of its run."""
    if report.digest != digest:
        raise ConfigurationMismatch(
            f"the report names configuration {report.digest[:12]}..., the run has {digest[:12]}..."
        )


def judge(
    claim: Claim, asked: PendingQuestion, earlier: StoredReport | None = None, still_open: bool = True
) -> StoredReport:
    """Return a report as it is stored, if it answers the question; ``earlier`` itself if it repeats that.

    ``earlier`` is the participant's report on the question so far, ``still_open`` whether the question takes answers.

    Raises the first of these that applies: the report has another configuration (ConfigurationMismatch), is on another
    question (NotFound), is no answer that the mechanism gives (BadMessage), differs from ``earlier`` (AlreadyAnswered),
    is too late or from a participant that was not asked (PatternViolation), is for another number of agents
    (BadMessage), answers another assignment (ConfigurationMismatch), or has answers packed wrongly (BadMessage).
    """
    report, key, number = claim.report, claim.key, asked.number
    check_configuration(report, asked.digest)
    if (report.run, report.question) != (asked.run, number):
        raise NotFound(f"this is question {number} of run {asked.run!r}, not {report.question}")
    body = claim.packed(asked.kind)
    if earlier is not None:
        received = claim.signed.signature, body, claim.payload
        if (earlier.signature.hex(), earlier.body, payload(earlier, asked)) != received:
            raise AlreadyAnswered(f"this agent has already answered question {number}")
        return earlier
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


def asked_slots(key: str, asked: PendingQuestion) -> Indices | range:
    """Return the slots that a participant was asked about; PatternViolation if there are none."""
    slots = asked.slots(key)
    if len(slots) == 0:
        raise not_asked(asked.number)
    return slots


def not_asked(number: int) -> PatternViolation:
    """Return the refusal of a participant that was not asked a question."""
    return PatternViolation(f"this agent was not asked question {number}")


def check_asked(report: Report | PackedReport, key: str, asked: PendingQuestion) -> Indices | range:
    """Return the slots that a participant was asked about; BadMessage if it reports on another number of agents."""
    slots = asked_slots(key, asked)
    people = 1 if isinstance(report, Report) else report.people
    if people != len(slots):
        raise BadMessage(f"question {asked.number} asked {len(slots)} agents of this participant, found {people}")
    return slots


def payload(stored: StoredReport, asked: PendingQuestion) -> bytes:
    """Return the canonical JSON that the participant of a stored report has signed, rebuilt from the question."""
    if stored.message:
        return stored.message
    return _payload(stored, asked, asked.batch.owner(stored.slot).key)


def _payload(stored: StoredReport, asked: PendingQuestion, key: str, fingerprint: str = "") -> bytes:
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
class PendingQuestion:
    """A question to some agents; ``form`` computes which agents, and is called once, when they are needed."""

    run: str
    digest: str
    number: int
    query: Query
    kind: AnswerKind
    form: Callable[[], AnyBatch]
    _digests: dict[str, str] = field(default_factory=dict)
    """Digests of hosts' assignments, by key: a large assignment is encoded and hashed only once."""

    @cached_property
    def batch(self) -> AnyBatch:
        return self.form()

    def slots(self, key: str) -> Indices | range:
        return self.batch.slots(key)

    def assignment_kind(self, key: str) -> str:
        """Return the kind of message that asks a participant: for a host in a large question, one with a mask."""
        mass = isinstance(self.batch, MassBatch) and self.batch.owner(int(self.slots(key)[0])).agents > 1
        return MassAssignment.KIND if mass else Assignment.KIND

    def assignment(self, key: str, slots: Indices | range | None = None) -> bytes:
        """Return a participant's assignment (:func:`referee.collection.order.assign`) in canonical JSON.

        ``slots`` are those of its agents, where the caller knows them already.
        """
        slots = self.slots(key) if slots is None else slots
        if len(slots) == 1 and self.batch.roster.alone(self.batch.position(int(slots[0]))):
            return self._individual + pack_index(int(slots[0])).encode() + _END
        encoded = canonical.encode(assign(self.batch, key, self.run, self.digest, self.number, self.query).wire())
        self._digests[key] = hashlib.sha256(encoded).hexdigest()
        return encoded

    def fingerprint(self, key: str, slots: Indices | range | None = None) -> str:
        """Return the digest of a participant's assignment; the parameters are those of :meth:`assignment`."""
        if key not in self._digests:
            payload = self.assignment(key, slots)
            return self._digests.get(key) or hashlib.sha256(payload).hexdigest()
        return self._digests[key]

    @cached_property
    def _individual(self) -> bytes:
        """The common prefix of all individuals' assignments, which differ only in the slot at their end."""
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


class ReceivedReport(NamedTuple):
    """A report as received: a signed message, and the packed answers of a hosted population (None: an individual)."""

    signed: AnySigned
    body: bytes | None = None


def claims(sent: Sequence[ReceivedReport | TandemError]) -> list[Claim | TandemError]:
    """Return the claim of each report that its participant has signed; for others the problem, if not given already.

    This reads no shared state, so it can run while other reports are stored.
    """
    outcomes: list[Claim | TandemError] = []
    for report in sent:
        if isinstance(report, TandemError):
            outcomes.append(report)
            continue
        signed, body = report
        try:
            kind = Report.KIND if body is None else PackedReport.KIND
            outcomes.append(read(signed, verified_payload(signed, kind), body))
        except TandemError as error:
            outcomes.append(error)
    return outcomes


def verified_payload(signed: AnySigned, kind: str) -> bytes:
    """Return the canonical JSON of a message; Forged if it is not of the kind, or not signed by its key."""
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
    """Return for each report its signed receipt in JSON if it was stored, else the problem."""
    replies: list[bytes | TandemError] = []
    for claim, problem in zip(claimed, problems, strict=True):
        if problem is not None or isinstance(claim, TandemError):
            replies.append(problem or Forged("not verified"))
        else:
            report = claim.report
            replies.append(receipt_for(referee, report.run, report.question, claim.signed.signature, now))
    return replies
