"""One run under fire: load, kills, and what must be one number afterwards."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import local_agent
from benchmarks.kills.fleet import ROLES, Fleet, Sender, fleet
from benchmarks.kills.killer import PAUSES, Killer
from benchmarks.kills.persons import Person
from benchmarks.kills.postgres import Server
from common.core.errors import TandemError
from common.scenario.scenario import ResolvedScenario, settled
from curator.ledger import entry_summaries
from deploy.deployment import RunOutput
from deploy.load.client import LightAgent
from deploy.processes import PartyProcess
from deploy.remote import Remote
from local_agent.person.checking import held_receipts
from referee.audit.audit import audit
from referee.protocols.base import small_ball
from referee.runfolder import unpack_reports

INDIVIDUALS, HOSTED, PERSONS = 200, 36, 4
"""Light agents, people of a host's process, and people whose agent is a process of its own."""
ROUNDS = 6
EVERYBODY = INDIVIDUALS + HOSTED + PERSONS
SENDERS = 50
"""Threads: a poll of one who is not asked is held for two seconds."""


def scenario() -> ResolvedScenario:
    """Return a scenario of six rounds, in each of which a sixth of the people are asked."""
    sizes = f"agents.count={EVERYBODY}", f"agents.batch={EVERYBODY // ROUNDS}", f"curator.rounds={ROUNDS}"
    return settled(small_ball(*sizes, "agents.deadline=3600", "curator.epsilon=120"))


@dataclass
class Killed:
    """What was killed in one run, and what came of it.

    Attributes:
        kills: As :class:`~benchmarks.kills.killer.Killer` keeps them.
        seconds: How long the run took, its parties' start included.
        acknowledged, stored, counted: People whose answers were acknowledged, are stored, and are counted by the audit.
        wrong: What does not hold, in words.
    """

    kills: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    acknowledged: int = 0
    stored: int = 0
    counted: int = 0
    status: str = ""
    wrong: list[str] = field(default_factory=list)


def once(
    folder: Path, server: Server | None, chance: random.Random, most: int, pauses: tuple[float, float] = PAUSES
) -> Killed:
    """Carry out one run under fire, and audit it.

    Args:
        folder: For the parties' states and logs.
        server: PostgreSQL, which is under fire, too; None: the referees share a SQLite file.
        most: How many kills.
    """
    chosen, token, found, began = scenario(), secrets.token_hex(16), Killed(), time.monotonic()
    agents = [LightAgent.fresh() for _ in range(INDIVIDUALS)]
    database = f"sqlite:///{folder}/shared.sqlite" if server is None else server.database()
    with fleet(folder, database, chosen, token, lives=10_000) as parties:
        _host(parties, folder, token)
        urls = [parties.urls[name] for name in ROLES]
        senders = [Sender(urls[n % 4 :] + urls[: n % 4], agents[n::SENDERS], token) for n in range(SENDERS)]
        persons = [Person(folder, f"person-{n}", urls[n % 4], token) for n in range(PERSONS)]
        for thread in [each.thread for each in senders] + [each.thread for each in persons]:
            thread.start()

        def acknowledged() -> int:
            return sum(len(sender.acknowledged) for sender in senders)

        killer = Killer(parties, persons, server, chance, most, acknowledged, pauses)
        try:
            finished = _carried(chosen, urls, token, chance)
        finally:
            killer.stop()
            for sender in senders:
                sender.over.set()
                sender.thread.join()
            for person in persons:
                person.stop()
    found.kills, found.status = killer.kills, finished.result["status"]
    _check(found, folder, chosen, finished, senders, persons)
    found.seconds = round(time.monotonic() - began, 1)
    return found


def _host(parties: Fleet, folder: Path, token: str) -> None:
    """Start a host that may be killed beside the fleet."""
    arguments = ["host", str(folder / "scenario.yaml"), "--state", str(folder / "host"), "--seed", "1"]
    arguments += ["--agents", str(HOSTED), "--referee", parties.urls["ingest-1"]]
    tokens = {"TANDEM_ENROLMENT_TOKEN": token}
    parties.parties["host"] = PartyProcess("host", [f"{local_agent.__name__}.cli", *arguments], folder, tokens, 10_000)
    parties.parties["host"].wait_for("hosts")


def _carried(chosen: ResolvedScenario, urls: list[str], token: str, chance: random.Random) -> RunOutput:
    """Create a run and wait for its end, at whichever process answers, as often as it takes."""
    while True:
        with closing(Remote(chance.choice(urls), token, patience=5.0)) as remote, suppress(TandemError):
            return remote.run(chosen, 1, "kills", lambda text, numbers: None)


def _check(
    found: Killed,
    folder: Path,
    chosen: ResolvedScenario,
    finished: RunOutput,
    senders: list[Sender],
    persons: list[Person],
) -> None:
    """Compare what was acknowledged, what is stored, what the audit counts, and what the curator has charged."""
    said = Counter({report: 1 for sender in senders for report in sender.acknowledged})
    said += Counter({report: 1 for person in persons for report in person.receipts()})
    for each in held_receipts(folder / "host"):
        said[str(each.report.message["report_id"])] += int(each.report.message["people"])
    reports = [report for _, raw in finished.reports for report in unpack_reports(raw)]
    stored = [report.report_id.hex() for report in reports]
    finished.write(folder / "run", chosen)
    try:
        found.counted = audit(folder / "run").answers
    except TandemError as error:
        found.wrong.append(f"the audit: {error.detail}")
    found.acknowledged, found.stored = said.total(), sum(report.answered for report in reports)
    found.wrong += [f"refused: {problem}" for sender in senders for problem in sender.refused]
    found.wrong += [f"{person.name}: {person.problem}" for person in persons if person.problem]
    if found.counted != found.stored:
        found.wrong.append(f"{found.stored} answers are stored, {found.counted} are counted")
    charged = [entry["operation"] for entry in entry_summaries(folder / "curator") if entry["kind"] == "charge"]
    asked = [line for line in finished.transcript.splitlines() if json.loads(line)["kind"] == "operation"]
    if len(charged) != len(asked):
        found.wrong.append(f"{len(asked)} operations were asked for, {len(charged)} are charged")
    if set(said) - set(stored):
        found.wrong.append(f"{len(set(said) - set(stored))} acknowledged reports are not stored")
    if len(set(stored)) != len(stored):
        found.wrong.append("a report is stored twice")
    if found.status in ("failed", "refused"):
        found.wrong.append(f"the run ended {found.status}: {finished.result['reason']}")
