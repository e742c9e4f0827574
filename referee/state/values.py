"""What the referee remembers, as values: who is enrolled, what was asked, what was reported, how runs stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
class Question:
    """A question to a batch of agents."""

    run: str
    question: int
    query: dict[str, Any]
    parts: tuple[Part, ...]
    asked: int
    open: bool


@dataclass(frozen=True)
class StoredReport:
    """A report as it was accepted: the signed header (JSON) and the packed body."""

    participant: str
    report_id: str
    answered: int
    header: dict[str, Any]
    body: bytes


@dataclass(frozen=True)
class Run:
    """A run as it stands."""

    run: str
    request: str
    scenario: dict[str, Any]
    seed: int | None
    status: str
    configuration: dict[str, Any] | None
    result: dict[str, Any] | None
