"""What a deployment does: carry a resolved scenario to its result, and hand over what an auditor needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from common.core import canonical
from common.lifetime.charging import Charging
from common.lifetime.ledger import PeopleLedger
from common.log.receipts import StoredCheckpoint
from common.log.transcript import SignedEntry
from common.net.messages import Configuration
from common.scenario.resolved import ResolvedScenario

OnProgress = Callable[[str, dict[str, float]], None]
"""Called with progress: a text and numbers."""


@dataclass(frozen=True)
class RunOutput:
    """A run that has ended: the result document, the transcript, who was enrolled, and the reports by question.

    ``checkpoints`` are those of the transcript, with the words of its witnesses; ``vouchers`` what participants have
    shown of issuers, empty where nobody has. ``all_runs`` is what the people on each side have spent over all runs, as
    the ledger of people knows it, None where nobody is charged from here.
    """

    result: dict[str, Any]
    transcript: str
    participants: bytes
    reports: tuple[tuple[int, bytes], ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()
    vouchers: bytes = b""
    all_runs: dict[str, Any] | None = None


class Deployment(Protocol):
    """Brings the parties together."""

    def check(self, scenario: ResolvedScenario) -> None:
        """Refuse, before anything is written, a scenario that this deployment has no room for."""
        ...

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> RunOutput:
        """Carry a run to its end; the same name again takes it up where it was."""
        ...


def spent_over_all_runs(transcript: str, scenario: ResolvedScenario, charging: Charging) -> dict[str, Any] | None:
    """Return what the people on each side of a run have spent over all runs by now; None where nobody is charged.

    The curator's signed word on it (``privacy.all_runs``) is as the ledger of people was when the run began, before the
    agents' people were charged.
    """
    if scenario.people == "simulated" or charging.ephemeral:
        return None
    first = SignedEntry.parse(canonical.decode(transcript.partition("\n")[0].encode("utf-8")))
    spent = PeopleLedger(charging.folder, charging.witnesses).spent(
        Configuration.parse(first.body["configuration"]).fingerprint()
    )
    sides = {"source": "curator", "target": "agent"}
    return {sides[side]: total.wire() for side, total in spent.items()}
