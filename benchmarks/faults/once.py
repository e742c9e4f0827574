"""One run under faults, one after the other; and what must hold afterwards."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.deployment import Deployment, deployment, scenario
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.machines import PATIENCE
from common.core.errors import RunFailed, TandemError
from curator.ledger import entry_summaries
from deploy.deployment import RunOutput
from referee.audit.audit import audit
from referee.runfolder import unpack_reports

RUN = "faults"
SETTLE = 1.5
"""Seconds that a fault lasts before it is looked at what the run does."""


@dataclass
class Struck:
    """What faults struck one run, and what came of it.

    Attributes:
        faults: Kind, party, what the party said that it lacks, whether the run went on meanwhile, seconds until it did
            after.
        status: How the run ended.
        wrong: What does not hold, in words.
    """

    faults: list[dict[str, Any]] = field(default_factory=list)
    status: str = ""
    answered: int = 0
    counted: int = 0
    wrong: list[str] = field(default_factory=list)


def once(folder: Path, faults: Sequence[tuple[str, str]], rounds: int = 24, seconds: float = SETTLE) -> Struck:
    """Strike one run with faults, each of a kind and at a party, until they are used up or the run has ended.

    Args:
        folder: For the parties.
        faults: Kind and party.
        rounds: Of the run, each of which asks ten people.
        seconds: How long each fault lasts.
    """
    found, chosen = Struck(), scenario(rounds, 10)
    with deployment(folder, chosen) as parties:
        first = {name: party.process.pid for name, party in parties.parties.items()}
        parties.remote.create(chosen, 1, RUN)
        for kind, party in faults:
            before = _progress(parties)
            if before is None:
                break
            with KINDS[kind](parties, party):
                time.sleep(seconds)
                lacks = parties.lacks(party)
                stood = _progress(parties)
            struck: dict[str, Any] = {"kind": kind, "party": party, "lacks": lacks, "went_on": stood != before}
            found.faults.append(struck)
            began = time.monotonic()
            while stood is not None and _progress(parties) == stood:
                if time.monotonic() - began > PATIENCE:
                    raise RunFailed(f"the run does not go on after {struck}")
                time.sleep(0.02)
            struck["seconds"] = round(time.monotonic() - began, 1)
        finished = parties.remote.follow(RUN, lambda text, numbers: None)
        ended = [name for name, party in parties.parties.items() if party.process.pid != first[name]]
        found.wrong += [f"the {name} died: {parties.parties[name].complaint()}" for name in ended]
        check(found, parties, finished)
    return found


def _progress(parties: Deployment) -> int | None:
    """Return how many entries the run's transcript has, read past the referee, which may be out of order; None: all."""
    place = f"file:{parties.state('referee')}/referee.sqlite?mode=ro"
    with closing(sqlite3.connect(place, uri=True, timeout=5)) as database:
        [(ended,)] = database.execute("SELECT count(*) FROM runs WHERE result IS NOT NULL")
        [(entries,)] = database.execute("SELECT count(*) FROM entries")
    return None if ended else int(entries)


def check(found: Struck, parties: Deployment, finished: RunOutput) -> None:
    """Note what does not hold of a run that has ended."""
    folder = parties.folder / "run"
    finished.write(folder, parties.chosen)
    found.status = finished.result["status"]
    reports = [report for _, raw in finished.reports for report in unpack_reports(raw)]
    found.answered = sum(report.answered for report in reports)
    try:
        audited = audit(folder)
        found.counted = audited.answers
    except TandemError as error:
        found.wrong.append(f"the audit: {error.detail}")
    if found.counted != found.answered:
        found.wrong.append(f"{found.answered} answers are stored, {found.counted} are counted")
    charged = [entry["operation"] for entry in entry_summaries(parties.state("curator")) if entry["kind"] == "charge"]
    asked = [line for line in finished.transcript.splitlines() if json.loads(line)["kind"] == "operation"]
    if len(charged) != len(asked) or len(set(charged)) != len(charged):
        found.wrong.append(f"{len(asked)} operations were asked for, {len(charged)} are charged")
    if found.status not in ("done", "exhausted"):
        found.wrong.append(f"the run ended {found.status}: {finished.result['reason']}")
