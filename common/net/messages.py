"""The messages between the parties: frozen values, each inside a :class:`~common.crypto.identity.Signed` of its KIND.

Every message about a run names the run and the SHA-256 ``digest`` of its immutable configuration.
"""

import base64
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import Field

from common.core import canonical
from common.core.arrays import Indices
from common.core.errors import BadMessage
from common.core.values import DIGEST, RUN, Number, RunMessage, Value
from common.core.version import PROTOCOL, release_of, skew
from common.crypto.identity import KEY_PATTERN, Signed
from common.crypto.vouching import Credential
from common.local.queries.query import AnyQuery
from common.log.entries import Extension, Head
from common.privacy.guarantee import PrivacyGuarantee
from common.privacy.rounding import stated

REPORT_ID = r"^[0-9a-f]{32}$"
MAX_LISTED = 1 << 22  # most agents that a question lists, each with its number and slot
MAX_AGENTS = 1 << 32  # most agents of a referee (32-bit numbers), and of a question that is the same for all agents
MAX_BEACON = 16  # most witnesses whose signatures enter an order


class OrderCommitment(Value):
    """Agents ``first`` .. ``first + agents - 1`` are asked in a random order that is fixed already.

    ``used`` of them were asked before this run; ``sha256`` commits to the secret seed of the order, which is published
    when a run ends that has asked some of them. The order is ``shared`` if it was there before this run.
    """

    first: int = Field(ge=0, le=MAX_AGENTS)
    agents: int = Field(ge=1, le=MAX_AGENTS)
    used: int = Field(ge=0, le=MAX_AGENTS)
    sha256: str = Field(pattern=DIGEST)
    shared: bool = Field(default=False, exclude_if=lambda shared: not shared)


class Configuration(Value):
    """A run's immutable configuration: ``scenario`` is the resolved public one as JSON, without local paths.

    ``beacon`` has the keys of the witnesses whose words take part in the order (:mod:`common.log.receipts`).
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
        """Validate a JSON form in full; raise VersionSkew for another protocol, whatever else the form holds."""
        version: Any = wire.get("version") if isinstance(wire, dict) else None
        number = isinstance(version, int | float) and not isinstance(version, bool)
        if number and version != PROTOCOL and version % 1 == 0:
            raise skew("the run's configuration", int(version), release_of(int(version)))
        return super().parse(wire)

    @classmethod
    def parse_signed(cls, wire: Any) -> Self:
        if isinstance(wire, dict) and "version" not in wire:
            raise BadMessage("Configuration: version: must be given")
        return super().parse_signed(wire)


class Spent(Value):
    """What may have been spent of the people of a data set over all runs in which one of them was recognised.

    Epsilon and delta are those of the person who has spent most, on either side, by basic composition
    (:mod:`common.lifetime.ledger`). ``both``: somebody was on both sides of a run, as far as rows can tell. ``labels``:
    the curator of one of these runs protects labels alone, and the sum holds for nothing else.
    """

    runs: int = Field(ge=1)
    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0)
    both: bool = Field(default=False, exclude_if=lambda both: not both)
    labels: bool = Field(default=False, exclude_if=lambda labels: not labels)

    def __str__(self) -> str:
        runs = f"in {self.runs} runs" if self.runs > 1 else "in this run, and none was recognised in another one"
        caveat = (
            "; for who is on both sides of a run, where rows that look alike count as one person unless an id column "
            "tells them apart"
        )
        what = " for labels alone, which is all that the curator of one of the runs protects," * self.labels
        return f"epsilon = {stated(self.epsilon)}, delta = {stated(self.delta)}{what} {runs}{caveat * self.both}"


class Terms(RunMessage):
    """The curator's answer to a configuration: what it guarantees its people for any behaviour of the referee.

    ``n`` is the public number of its people, ``ledger`` the head of its ledger with the links from its beginning,
    ``all_runs`` null where nobody counts over runs. ``share`` is the curator's part in the seed of the agents' order
    (:mod:`referee.collection.order`), 32 bytes in hex, left out where its randomness is a public seed; with a beacon
    its hash ``share_sha256`` stands in its place (:mod:`common.log.receipts`).
    """

    KIND: ClassVar[str] = "terms"
    n: int
    guarantee: PrivacyGuarantee
    all_runs: Spent | None = None
    ledger: Extension
    share: str | None = Field(default=None, pattern=DIGEST, exclude_if=lambda share: share is None)
    share_sha256: str | None = Field(default=None, pattern=DIGEST, exclude_if=lambda share: share is None)


class Perform(RunMessage):
    """A request to the curator: carry out an operation under an id that is unique in the run.

    ``seen`` is the last head of the curator's ledger that the referee has received, which it so countersigns.
    """

    KIND: ClassVar[str] = "perform"
    operation_id: str = Field(pattern=r"^[0-9]{1,9}$")
    operation: dict[str, Any]
    seen: Head


class StoredRelease(RunMessage):
    """The curator's stored answer to the request with a digest.

    ``ledger`` is its ledger's head once the result was stored, with the links from the head that the request names.
    """

    KIND: ClassVar[str] = "release"
    operation_id: str
    request: str = Field(pattern=DIGEST)
    result: dict[str, Any]
    ledger: Extension


class PointQuestion(Value):
    """A consumer's question to the stream that the run of a curator has opened: the class of one public point."""

    KIND: ClassVar[str] = "point"
    curator: str = Field(pattern=KEY_PATTERN)
    point: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] = Field(min_length=1, max_length=1 << 14)


class PointAnswer(Value):
    """The curator's stored answer to the question with a digest, which is the stream's ``number``-th.

    ``label`` is -1, +1, the number of a class, or null where the teachers do not agree enough. Behind this answer
    ``unstable_left`` more may be null, of ``questions_left`` further questions.
    """

    KIND: ClassVar[str] = "point-answer"
    run: str = Field(pattern=RUN)
    question: str = Field(pattern=DIGEST)
    number: int = Field(ge=1)
    label: int | None = Field(ge=-1)
    unstable_left: int = Field(ge=0)
    questions_left: int = Field(ge=0)
    protects: Literal["records", "labels"]


class Acknowledgement(RunMessage):
    """The referee's last message to the curator in a run, which countersigns its last release."""

    KIND: ClassVar[str] = "acknowledgement"
    seen: Head


QueryKind = Annotated[str, Field(pattern=r"^[a-z-]{1,40}$")]


class AgentPolicy(Value):
    """What each agent of a participant will not do by its own rules; it gives no permission.

    ``refuses`` names kinds of queries that come with Tandem; the lifetime budget (epsilon, delta) is null where there
    is no limit, for simulated people. It says nothing of a record but how many features it has.
    """

    refuses: Annotated[tuple[QueryKind, ...], Field(max_length=64)] = ()
    epsilon: float | None = Field(default=None, ge=0)
    delta: float | None = Field(default=None, ge=0)
    features: int = Field(ge=0, lt=1 << 31)


class Enrolment(Value):
    """An agent (``agents`` = 1) or a hosted population presents itself; the key that signs is its name.

    ``credential`` is an issuer's for a person, ``grant`` one for a host (:mod:`common.crypto.vouching`). ``again``: an
    individual that was asked takes part once more, in a later run.
    """

    KIND: ClassVar[str] = "enrolment"
    agents: int = Field(ge=1, le=MAX_AGENTS)
    credential: Credential | None = Field(default=None, exclude_if=lambda credential: credential is None)
    grant: Signed | None = Field(default=None, exclude_if=lambda grant: grant is None)
    policy: AgentPolicy | None = Field(default=None, exclude_if=lambda policy: policy is None)
    again: bool = Field(default=False, exclude_if=lambda again: not again)


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


class Assignment(RunMessage):
    """One question to some of a participant's agents.

    ``people`` and ``slots`` are base64 of little-endian uint32 arrays: the participant's own agent indices (0-based)
    that are asked, and their public positions in the batch (:func:`pack_slots`).
    """

    KIND: ClassVar[str] = "assignment"
    question: Number
    query: AnyQuery
    people: str
    slots: str


class MassAssignment(RunMessage):
    """One question to some of a hosted population's agents, where more are asked than are listed (``MAX_LISTED``).

    ``people`` is base64 of a mask over the participant's own agents (:mod:`common.local.packing`): who is asked.
    Their slots are ``slot``, ``slot`` + 1, ..., in the order of their numbers.
    """

    KIND: ClassVar[str] = "mass-assignment"
    question: Number
    query: AnyQuery
    people: str
    slot: int = Field(ge=0, lt=MAX_AGENTS)


AnyAssignment = Assignment | MassAssignment


def assignment_of(kind: str) -> type[Assignment] | type[MassAssignment]:
    """Return the class that parses an assignment of a kind; for an unknown kind the usual class, which refuses it."""
    return MassAssignment if kind == MassAssignment.KIND else Assignment


class Report(RunMessage):
    """One individual agent's randomized answer to the :class:`Assignment` with a digest."""

    KIND: ClassVar[str] = "report"
    report_id: str = Field(pattern=REPORT_ID)
    question: Number
    assignment: str = Field(pattern=DIGEST)
    answer: float


class PackedReport(RunMessage):
    """Header of a hosted population's answers to the assignment with a digest.

    The answers travel beside it as bytes (:mod:`common.local.packing`), bound to it by their SHA-256.
    """

    KIND: ClassVar[str] = "packed-report"
    report_id: str = Field(pattern=REPORT_ID)
    question: Number
    people: int = Field(ge=1, le=MAX_AGENTS)
    assignment: str = Field(pattern=DIGEST)
    body_sha256: str = Field(pattern=DIGEST)


class Decline(RunMessage):
    """None of a participant's people did answer, or will, the assignment with a digest.

    ``reason`` is the type of the problem, without its prefix: what its own rules forbid, never anything about a record.
    """

    KIND: ClassVar[str] = "decline"
    question: Number
    assignment: str = Field(pattern=DIGEST)
    reason: str = Field(pattern=r"^[a-z-]{1,40}$")


def most_agents(*, alike: bool) -> int:
    """Return how many agents one question can ask: many more if it asks every slot the same."""
    return MAX_AGENTS if alike else MAX_LISTED


def too_many(count: int, *, alike: bool) -> str:
    """Return the message that one question cannot ask so many agents."""
    kind = "one question" if alike else "one question that does not ask every agent the same"
    return (
        f"agents: {kind} reaches {most_agents(alike=alike):,} agents, {count:,} were to answer it: allow a larger "
        "alpha or beta, a shorter item or a larger epsilon"
    )


def pack_indices(values: Indices) -> str:
    """Encode non-negative integers below 2^32 as base64 of little-endian uint32."""
    return base64.b64encode(values.astype("<u4").tobytes()).decode("ascii")


def pack_index(value: int) -> str:
    """Encode one integer like :func:`pack_indices`."""
    return base64.b64encode(value.to_bytes(4, "little")).decode("ascii")


def pack_slots(slots: Indices) -> str:
    """Encode slots as :func:`pack_indices`; of consecutive slots only the first is encoded."""
    return pack_indices(slots[:1] if (np.diff(slots) == 1).all() else slots)


def unpack_slots(text: str, people: int) -> Indices:
    """Decode :func:`pack_slots` of ``people`` slots; BadMessage if the number differs, or for invalid base64."""
    slots = unpack_indices(text)
    if slots.size not in (1, people) or (slots.size < people and slots[0] + people > MAX_AGENTS):
        raise BadMessage(f"an assignment to {people} people names the slot of each, or of the first alone")
    return slots if slots.size == people else slots[0] + np.arange(people)


def unpack_indices(text: str) -> Indices:
    """Decode :func:`pack_indices`; BadMessage if the text is not base64 of whole 32-bit words, or of too many."""
    try:
        raw = base64.b64decode(text, validate=True)
        if len(raw) > 4 * MAX_LISTED:
            raise ValueError(f"more than {MAX_LISTED} agents in one question")
        last = raw[(len(raw) - 1) // 3 * 3 :]  # only the last group could be encoded in more than one way
        if len(text) != 4 * -(-len(raw) // 3) or base64.b64encode(last) != text[-4:].encode():
            raise ValueError("bits behind the last byte")
        return np.frombuffer(raw, dtype="<u4").astype(np.int64)
    except ValueError as error:
        raise BadMessage(f"agent indices: {error}") from None


# Enrolments, polls and individual reports come by the million, with few, flat fields. In the usual form (that of
# Signed.raw, with the message in canonical JSON) a regular expression replaces the parser. Other forms are parsed.
Message = TypeVar("Message", bound=Value)

_ENVELOPE = re.compile(
    rb'\{"kind":"(enrolment|poll|report)","message":(\{[^{}]{1,600}\}),'
    rb'"key":"([0-9a-f]{64})","signature":"([0-9a-f]{128})"\}'
)
_REPORT = (
    rb'\{"answer":(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,22})?),"assignment":"[0-9a-f]{64}","digest":"[0-9a-f]{64}",'
    rb'"question":(?:0|[1-9][0-9]{0,8}),"report_id":"[0-9a-f]{32}","run":"[0-9a-zA-Z_-]{1,64}"\}'
)
_FORMS: dict[bytes, tuple[type[Enrolment] | type[Poll] | type[Report], re.Pattern[bytes]]] = {
    b"enrolment": (Enrolment, re.compile(rb'\{"agents":[1-9][0-9]{0,8}\}')),
    b"poll": (Poll, re.compile(rb'\{"participant":"[0-9a-f]{64}"\}')),
    b"report": (Report, re.compile(_REPORT)),
}


@dataclass(slots=True, eq=False)
class SignedBytes:
    """A signed message in the usual form, unverified: ``payload`` is what was signed, ``value`` the parsed message."""

    kind: str
    payload: bytes
    key: str
    signature: str
    value: Enrolment | Poll | Report

    @property
    def message(self) -> dict[str, Any]:
        return self.value.wire()


AnySigned = Signed | SignedBytes


def signed_bytes(kind: str, payload: bytes, key: str, signature: str) -> AnySigned:
    """Return a signed message from its parts, its payload in canonical JSON; BadMessage if they are not valid."""
    value = _parse_usual(kind.encode(), payload)
    if value is not None:
        return SignedBytes(kind, payload, key, signature, value)
    return Signed.parse({"kind": kind, "message": canonical.decode(payload), "key": key, "signature": signature})


def read(raw: bytes) -> AnySigned:
    """Read a signed message without verifying its signature; BadMessage if it is no signed message."""
    match = _ENVELOPE.fullmatch(raw)
    if match is not None:
        kind, payload, key, signature = match.groups()
        value = _parse_usual(kind, payload)
        if value is not None:
            return SignedBytes(kind.decode("ascii"), payload, key.decode("ascii"), signature.decode("ascii"), value)
    return Signed.parse(canonical.decode(raw))


def parse_payload(signed: AnySigned, kind: type[Message]) -> Message:
    """Return the parsed content of a signed message of a kind; BadMessage if it is not of that kind."""
    if isinstance(signed, SignedBytes) and isinstance(signed.value, kind):
        return signed.value
    return kind.parse(signed.message)


def field(signed: AnySigned, name: str) -> object:
    """Return one field of a signed message as received; None if there is no field of that name."""
    if isinstance(signed, SignedBytes):
        return getattr(signed.value, name) if name in signed.value.model_fields_set else None
    return signed.message.get(name)


def report_payload(report_id: str, run: str, digest: str, question: int, assignment: str, answer: float) -> bytes:
    """Return an individual's report in canonical JSON; the fields must be valid for a report."""
    text = (
        f'{{"answer":{canonical.number_text(answer)},"assignment":"{assignment}","digest":"{digest}",'
        f'"question":{question},"report_id":"{report_id}","run":"{run}"}}'
    )
    return text.encode("ascii")


def _parse_usual(kind: bytes, payload: bytes) -> Enrolment | Poll | Report | None:
    form, pattern = _FORMS.get(kind, (None, None))
    match = None if pattern is None else pattern.fullmatch(payload)
    if form is None or match is None:
        return None
    if form is Report and canonical.number_text(float(match[1])).encode("ascii") != match[1]:
        return None  # canonical JSON has one way to write a number
    return form.model_validate_json(payload)
