"""The interface of a deployment: run a resolved scenario to its result, and return what an auditor needs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from common.core import canonical
from common.core.errors import PeerUnavailable
from common.crypto.identity import Identity
from common.lifetime.charging import USERS_OWN, Charging
from common.lifetime.ledger import PeopleLedger
from common.log.receipts import StoredCheckpoint
from common.log.transcript import SignedEntry
from common.net.messages import Configuration
from common.scenario.scenario import ResolvedScenario
from curator.startup import check_room, open_curator
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.runfolder import pack_reports, write_run
from referee.service.referee import Referee, public

OnProgress = Callable[[str, dict[str, float]], None]  # called with progress: a text and numbers


@dataclass(frozen=True)
class RunOutput:
    """A run that has ended: the result document, the transcript, the participants, and the reports by question.

    ``checkpoints`` are those of the transcript, with the statements of its witnesses; ``vouchers`` are those of the
    participants, empty if there are none. ``all_runs`` is what the people on each side have spent over all runs,
    according to the ledger of people; None if no people are charged from here.
    """

    result: dict[str, Any]
    transcript: str
    participants: bytes
    reports: tuple[tuple[int, bytes], ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()
    vouchers: bytes = b""
    all_runs: dict[str, Any] | None = None

    @classmethod
    def of(cls, result: dict[str, Any], referee: Referee, run: str) -> Self:
        """Return a run that has ended with a result, from a referee in this process."""
        store = referee.store
        transcript = "".join(line + "\n" for line in store.entries(run))
        reports = tuple((q.question, pack_reports(store.reports(q))) for q in store.questions(run))
        checkpoints, vouchers = tuple(referee.kept(run)), b"".join(referee.vouchers(run))
        return cls(result, transcript, referee.participants(run), reports, checkpoints, vouchers)

    def write(self, folder: Path, scenario: ResolvedScenario, **more: Any) -> None:
        parts = self.transcript, self.participants, self.reports, self.checkpoints, self.vouchers
        write_run(folder, public(scenario), {**self.result, **more}, *parts)


def spent_over_all_runs(transcript: str, scenario: ResolvedScenario, charging: Charging) -> dict[str, Any] | None:
    """Return what the people on each side of a run have spent over all runs by now; None if none are charged.

    The curator's signed statement (``privacy.all_runs``) is from the ledger of people when the run began, before the
    agents' people were charged.
    """
    if scenario.people == "simulated" or charging.ephemeral:
        return None
    first = SignedEntry.parse(canonical.decode(transcript.partition("\n")[0].encode("utf-8")))
    digest = Configuration.parse(first.body["configuration"]).fingerprint()
    spent = PeopleLedger(charging.folder, charging.witnesses).spent(digest)
    sides = {"source": "curator", "target": "agent"}
    return {sides[side]: total.wire() for side, total in spent.items()}


_TOKEN = secrets.token_hex(16)


class Embedded:
    """A deployment in one process. Its clock stands still, so no deadline passes, however slow the machine is."""

    def __init__(self, state: Path, charging: Charging = USERS_OWN) -> None:
        self._state = state
        self._charging = replace(charging, both=True)

    def check(self, scenario: ResolvedScenario) -> None:
        check_room(scenario, self._state / "curator")

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> RunOutput:
        with ExitStack() as opened:
            key = Identity.load_or_create(self._state / "referee" / "identity.key").public
            curator = open_curator(
                scenario,
                self._state / "curator",
                seed,
                key,
                lambda text: on_progress(text, {}),
                charging=self._charging,
            )
            opened.callback(curator.close)
            hosts: list[Host] = []
            referee = Referee(self._state / "referee", curator, wait=lambda seconds: _work(hosts), clock=lambda: 0.0)
            opened.callback(referee.close)
            referee.registrar.allow("enrolment", _TOKEN)
            population = open_population(scenario, self._state / "agents", seed, key, None, charging=self._charging)
            opened.callback(population.close)
            hosts.append(Host(population, referee, key))
            hosts[0].enrol(_TOKEN)
            referee.create(run, scenario.wire(), seed)
            result = referee.execute(run, lambda note: on_progress(note.text, note.numbers))
            finished = RunOutput.of(result, referee, run)
            return replace(finished, all_runs=spent_over_all_runs(finished.transcript, scenario, self._charging))


def _work(hosts: list[Host]) -> None:
    # All parties are in this process: if none has anything to do, nothing will ever arrive.
    busy = [host.step() for host in hosts]
    if not any(busy):
        raise PeerUnavailable("fewer people are hosted in this process than the scenario's agents.count")
