"""What the referee remembers, as values: who is enrolled, what was asked, what was reported, how runs stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Participant:
    """An enrolled agent or hosted population: agents ``first`` .. ``first + agents - 1`` answer under ``key``."""

    key: str
    first: int
    agents: int


@dataclass(frozen=True)
class Cohort:
    """Agents that were enrolled together when a run began; ``used`` of them, in the order of ``seed``, were asked."""

    first: int
    agents: int
    seed: str
    used: int


@dataclass(frozen=True)
class Part:
    """Positions ``start`` .. ``stop - 1`` of the order of the cohort that begins at agent ``cohort``."""

    cohort: int
    start: int
    stop: int


@dataclass(frozen=True)
class StoredQuestion:
    """A question to a batch of agents; ``key`` is its number among all of the referee's, 0 before it is stored."""

    run: str
    question: int
    query: dict[str, Any]
    parts: tuple[Part, ...]
    asked: int
    open: bool
    key: int = 0


class Taken(NamedTuple):
    """That a report is stored: its number, the key of its question, and the slot that it is from."""

    number: int
    question: int
    slot: int


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report as it was accepted, without what its question says already.

    Attributes:
        slot: The first slot of its participant in the question's batch: this names the participant.
        individual: Whether an individual agent sent it, or a host.
        report_id: 16 bytes.
        answered: How many agents answered.
        signature: Of the participant, 64 bytes.
        body: The packed answers.
        message: What was signed, in canonical JSON, if it is written in another way than it is rebuilt; else empty.
    """

    slot: int
    individual: bool
    report_id: bytes
    answered: int
    signature: bytes
    body: bytes
    message: bytes = b""


@dataclass(frozen=True)
class StoredRun:
    """A run as it stands."""

    run: str
    request: str
    scenario: dict[str, Any]
    seed: int | None
    status: str
    configuration: dict[str, Any] | None
    result: dict[str, Any] | None
