"""What a deployment does: carry a resolved scenario to its result, and hand over what an auditor needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from common.scenario.resolved import ResolvedScenario
from common.wire.receipts import Kept

OnProgress = Callable[[str, dict[str, float]], None]
"""Called with progress: a text and numbers."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended: the result document, the transcript, who was enrolled, and the reports by question.

    ``checkpoints`` are those of the transcript, with the words of its witnesses; ``vouchers`` what participants have
    shown of issuers, empty where nobody has.
    """

    result: dict[str, Any]
    transcript: str
    participants: bytes
    reports: tuple[tuple[int, bytes], ...]
    checkpoints: tuple[Kept, ...] = ()
    vouchers: bytes = b""


class Deployment(Protocol):
    """Brings the parties together."""

    def check(self, scenario: ResolvedScenario) -> None:
        """Refuse, before anything is written, a scenario that this deployment has no room for."""
        ...

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> Finished:
        """Carry a run to its end; the same name again takes it up where it was."""
        ...
