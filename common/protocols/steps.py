"""What a protocol yields, and what it receives: questions to the curator and to agents, and progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common.local.answers import AskAgents
from common.operations.operation import Operation


@dataclass(frozen=True)
class AskCurator:
    """Ask the curator to carry out an operation; the reply is the operation's own result, read and checked."""

    operation: Operation[Any]


@dataclass(frozen=True)
class Together:
    """Ask all of this at once: no question can depend on an answer to another. The reply is the list of replies."""

    steps: tuple[AskCurator | AskAgents, ...]


@dataclass(frozen=True)
class Progress:
    """Say something about the progress, to whoever watches; the reply is None."""

    text: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Testing(Progress):
    """Say how far a test is between two of its questions: of interest until the next one, and part of no result."""
