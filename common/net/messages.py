"""What travels between the parties: frozen values, each sent inside a :class:`~common.crypto.identity.Signed` envelope.

The ``KIND`` of each is what its signature covers. Every message about a run names the run and the SHA-256 ``digest``
of its immutable configuration; whoever receives another digest than its own refuses.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import Field

from common.core import canonical
from common.core.arrays import Indices
from common.core.errors import BadMessage
from common.core.values import DIGEST, RUN, Number, Value
from common.core.version import PROTOCOL, release_of, skew
from common.crypto.identity import KEY_PATTERN, Signed
from common.crypto.vouching import Credential
from common.local.queries.query import AnyQuery
from common.log.entries import Extension, Head
from common.privacy.guarantee import PrivacyGuarantee

REPORT_ID = r"^[0-9a-f]{32}$"
MAX_LISTED = 1 << 22
"""Most agents that a question lists, each with its number and slot: those that not every slot is asked the same."""
MAX_AGENTS = 1 << 32
"""Most agents of one referee, whose numbers travel as 32-bit words, and of a question that asks all the same."""

MAX_BEACON = 16
"""Most witnesses whose words take part in an order."""


class OrderCommitment(Value):
    """Agents ``first`` .. ``first + agents - 1`` are asked in a random order that is fixed already.

    ``used`` of them were asked before this run; ``sha256`` commits to the secret seed of the order, which is published
    when a run ends that has asked some of them. The order is ``shared`` with another run if it was there before this
    one: nothing that this run's curator says changes it then. The JSON form says so only where it is.
    """

    first: int = Field(ge=0, le=MAX_AGENTS)
    agents: int = Field(ge=1, le=MAX_AGENTS)
    used: int = Field(ge=0, le=MAX_AGENTS)
    sha256: str = Field(pattern=DIGEST)
    shared: bool = Field(default=False, exclude_if=lambda shared: not shared)


class Configuration(Value):
    """A run's immutable configuration: the referee, the resolved scenario, and the commitments to the agents' order.

    ``scenario`` is the resolved public scenario as JSON (without local paths). ``beacon`` has the keys of the witnesses
    whose words take part in the order (:mod:`common.log.beacon`); it is left out where none do.
    """

    KIND: ClassVar[str] = "configuration"
    version: Literal[3] = 3
    run: str = Field(pattern=RUN)
    referee: str = Field(pattern=KEY_PATTERN)
    scenario: dict[str, Any]
    order: tuple[OrderCommitment, ...] = Field(min_length=1)
    beacon: tuple[Annotated[str, Field(pattern=KEY_PATTERN)], ...] = Field(
        default=(), max_length=MAX_BEACON, exclude_if=lambda keys: not keys
    )

    @classmethod
    def parse(cls, wire: Any) -> Self:
        """Validate a JSON form in full.

        Raises:
            VersionSkew: If it is one of another protocol, whatever else it holds: names both versions.
            BadMessage: Naming the first field that is wrong and why.
        """
        found = wire.get("version") if isinstance(wire, dict) else None
        if isinstance(found, int) and found != PROTOCOL:
            raise skew("the run's configuration", found, release_of(found))
        return super().parse(wire)


class Spent(Value):
    """What may have been spent of the people of a data set over all of its runs, the present one included.

    ``runs`` are those in which a person of the present one was recognised; epsilon and delta are those of the person
    who has spent most in them, on either side, by basic composition (:mod:`common.lifetime.ledger`). ``both`` says that
    somebody was on both sides of a run, as far as rows can tell. ``labels`` says that the curator of one of these runs
    protects labels alone: then the sum holds for a person's labels, and for nothing else of them.
    """

    runs: int = Field(ge=1)
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0)
    both: bool = Field(default=False, exclude_if=lambda both: not both)
    labels: bool = Field(default=False, exclude_if=lambda labels: not labels)

    def __str__(self) -> str:
        where = f"in {self.runs} runs" if self.runs > 1 else "in this run, and none was recognised in another one"
        aside = (
            "; for who is on both sides of a run, where rows that look alike count as one person unless an id column "
            "tells them apart"
        )
        what = " for labels alone, which is all that the curator of one of the runs protects," * self.labels
        return f"epsilon = {self.epsilon:g}, delta = {self.delta:g}{what} {where}{aside * self.both}"


class Terms(Value):
    """The curator's answer to a configuration: what it guarantees its people for any behaviour of the referee.

    ``n`` is the public number of its people.
    ``ledger`` is the head of the curator's ledger once the run was opened, with the links from its beginning.
    ``all_runs`` is null where nobody counts over runs: for simulated people, and without a lasting ledger.
    ``share`` is the curator's part in the seed of the agents' order (:mod:`referee.collection.order`), 32
    bytes in hex; it is left out where the curator's randomness is a public seed. With a beacon the terms hold
    ``share_sha256`` in its place, the hash of the share, which is opened once the beacon is known
    (:mod:`common.log.beacon`).
    """

    KIND: ClassVar[str] = "terms"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    n: int
    guarantee: PrivacyGuarantee
    all_runs: Spent | None = None
    ledger: Extension
    share: str | None = Field(default=None, pattern=DIGEST, exclude_if=lambda share: share is None)
    share_sha256: str | None = Field(default=None, pattern=DIGEST, exclude_if=lambda share: share is None)


class Perform(Value):
    """A request to the curator: carry out an operation under an id that is unique in the run.

    ``seen`` is the last head of the curator's ledger that the referee has received. Signed with the rest, it is the
    referee's countersignature, which the curator stores.
    """

    KIND: ClassVar[str] = "perform"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    operation_id: str = Field(pattern=r"^[0-9]{1,9}$")
    operation: dict[str, Any]
    seen: Head


class StoredRelease(Value):
    """The curator's stored answer to a request (``request`` is that request's digest).

    ``ledger`` is the head of the curator's ledger once the result was stored, with the links from the head that the
    request names: the ledger extends what the referee has seen of it.
    """

    KIND: ClassVar[str] = "release"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    operation_id: str
    request: str = Field(pattern=DIGEST)
    result: dict[str, Any]
    ledger: Extension


class Acknowledgement(Value):
    """The referee's last message to the curator in a run: it has received the ledger up to ``seen``.

    Its countersignature of what no further request countersigns: the last release.
    """

    KIND: ClassVar[str] = "acknowledgement"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    seen: Head


QueryKind = Annotated[str, Field(pattern=r"^[a-z-]{1,40}$")]


class AgentPolicy(Value):
    """What each agent of a participant will not do, by its own rules: so that a run which all refuse costs nobody.

    It says nothing of a record but how many features it has, and gives no permission: an agent checks each question by
    its own rules.

    Attributes:
        refuses: Kinds of queries, of those that come with Tandem.
        epsilon, delta: The lifetime budget; null where there is no limit, for simulated people.
        features: Of each record.
    """

    refuses: Annotated[tuple[QueryKind, ...], Field(max_length=64)] = ()
    epsilon: float | None = Field(default=None, ge=0)
    delta: float | None = Field(default=None, ge=0)
    features: int = Field(ge=0, lt=1 << 31)


class Enrolment(Value):
    """An agent (``agents`` = 1) or a hosted population presents itself; the key that signs is its name.

    ``credential`` is an issuer's for a person, ``grant`` one for a host (:mod:`common.crypto.vouching`), ``policy``
    what its agents will not do: the JSON form has each only where there is one.
    """

    KIND: ClassVar[str] = "enrolment"
    agents: int = Field(ge=1, le=MAX_AGENTS)
    credential: Credential | None = Field(default=None, exclude_if=lambda credential: credential is None)
    grant: Signed | None = Field(default=None, exclude_if=lambda grant: grant is None)
    policy: AgentPolicy | None = Field(default=None, exclude_if=lambda policy: policy is None)


class Enrolled(Value):
    """The referee's answer: the agents are numbered ``first`` ... ``first + agents - 1``."""

    KIND: ClassVar[str] = "enrolled"
    participant: str = Field(pattern=KEY_PATTERN)
    first: int = Field(ge=0)
    agents: int = Field(ge=1)


class Poll(Value):
    """A participant asks whether there is a question for it."""

    KIND: ClassVar[str] = "poll"
    participant: str = Field(pattern=KEY_PATTERN)


class Assignment(Value):
    """One question to some of a participant's agents.

    ``people`` and ``slots`` are base64 of little-endian uint32 arrays of equal length: the participant's own agent
    indices (0-based) that are asked, and their public positions in the batch.
    """

    KIND: ClassVar[str] = "assignment"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    question: Number
    query: AnyQuery
    people: str
    slots: str


class MassAssignment(Value):
    """One question to some of a hosted population's agents, where more are asked than are listed (``MAX_LISTED``).

    ``people`` is base64 of a mask over the participant's own agents (:mod:`common.local.packing`): who is asked.
    Their slots are ``slot``, ``slot`` + 1, ..., in the order of their numbers.
    """

    KIND: ClassVar[str] = "mass-assignment"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    question: Number
    query: AnyQuery
    people: str
    slot: int = Field(ge=0, lt=MAX_AGENTS)


AnyAssignment = Assignment | MassAssignment


def assignment_of(kind: str) -> type[Assignment] | type[MassAssignment]:
    """Return what an assignment of a kind is read as; of an unknown kind, the usual one, which it then is not."""
    return MassAssignment if kind == MassAssignment.KIND else Assignment


class Report(Value):
    """One individual agent's randomized answer.

    ``assignment`` is the digest of the :class:`Assignment` that it answers: who signs an answer signs the question too.
    """

    KIND: ClassVar[str] = "report"
    report_id: str = Field(pattern=REPORT_ID)
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    question: Number
    assignment: str = Field(pattern=DIGEST)
    answer: float


class PackedReport(Value):
    """Header of a hosted population's answers to one assignment.

    The answers themselves travel beside it as bytes (:mod:`common.local.packing`), bound to it by their SHA-256;
    ``assignment`` is the digest of the :class:`Assignment` that they answer.
    """

    KIND: ClassVar[str] = "packed-report"
    report_id: str = Field(pattern=REPORT_ID)
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    question: Number
    people: int = Field(ge=1, le=MAX_AGENTS)
    assignment: str = Field(pattern=DIGEST)
    body_sha256: str = Field(pattern=DIGEST)


class Decline(Value):
    """A participant will not answer an assignment (``assignment`` is its digest): none of its people did, or will.

    ``reason`` is the type of the problem, without its prefix: what its own rules forbid, never anything about a record.
    """

    KIND: ClassVar[str] = "decline"
    run: str = Field(pattern=RUN)
    digest: str = Field(pattern=DIGEST)
    question: Number
    assignment: str = Field(pattern=DIGEST)
    reason: str = Field(pattern=r"^[a-z-]{1,40}$")


def most_agents(*, alike: bool) -> int:
    """Return how many agents one question reaches: very many if it asks every slot the same."""
    return MAX_AGENTS if alike else MAX_LISTED


def too_many(count: int, *, alike: bool) -> str:
    """Say that one question cannot reach so many agents."""
    kind = "one question" if alike else "one question that does not ask every agent the same"
    return (
        f"agents: {kind} reaches {most_agents(alike=alike):,} agents, {count:,} were to answer it: allow a larger "
        "alpha or beta, a shorter item or a larger epsilon"
    )


def pack_indices(values: Indices) -> str:
    """Encode non-negative integers below 2^32 as base64 of little-endian uint32."""
    return base64.b64encode(values.astype("<u4").tobytes()).decode("ascii")


def pack_index(value: int) -> str:
    """Encode one non-negative integer below 2^32 as :func:`pack_indices` does."""
    return base64.b64encode(value.to_bytes(4, "little")).decode("ascii")


def unpack_indices(text: str) -> Indices:
    """Decode :func:`pack_indices`.

    Raises:
        BadMessage: If the text is not base64 of whole 32-bit words, or of too many.
    """
    try:
        raw = base64.b64decode(text, validate=True)
        if len(raw) > 4 * MAX_LISTED:
            raise ValueError(f"more than {MAX_LISTED} agents in one question")
        return np.frombuffer(raw, dtype="<u4").astype(np.int64)
    except ValueError as error:
        raise BadMessage(f"agent indices: {error}") from None


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
