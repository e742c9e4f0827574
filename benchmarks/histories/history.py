"""One history, and what must hold after it.

Nobody answers twice; nothing is charged or released twice; what was acknowledged is stored and counted; the counts are
those of the stored reports, the result is what the audit works out again from them; and the run has ended, or says why
it cannot.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.histories.faults import Faults
from benchmarks.histories.world import RUN, NeverEnds, Opening, World, names, scenario, world
from common.core import canonical
from common.core.errors import AuditFailed, TandemError
from common.crypto.identity import Signed
from common.net.messages import unpack_indices
from referee.audit.audit import audit
from referee.audit.history import receipts_at
from referee.runfolder import pack_reports, write_run
from referee.service.referee import public


@dataclass
class History:
    """What became of one history: its seed, the run's status and reason, what does not hold, and all that happened."""

    seed: int
    status: str = ""
    reason: str = ""
    broken: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    answered: int = 0
    digest: str = ""
    """Of the transcript and the curator's ledger, as they are stored: the same whenever the seed is."""


def play(seed: int, kind: Opening = World, **rates: Any) -> History:
    """Play one history in a kind of world; ``rates`` are those of :class:`~benchmarks.histories.faults.Faults`."""
    faults = Faults(seed, **rates)
    history = History(seed, log=faults.log)
    with world(faults, kind) as opened:
        try:
            result = opened.run()
        except NeverEnds as error:
            history.broken.append(f"ends: {error}")
            return history
        except Exception as error:  # noqa: BLE001 - whatever a party lets through is a finding
            history.broken.append(f"ends: {type(error).__name__}: {error}")
            return history
        history.digest = _digest(opened)
        history.status, history.reason = result["status"], result["reason"]
        history.answered = result["agents"]["answered"]
        if not history.status or (history.status in ("failed", "refused") and not history.reason):
            history.broken.append("ends: without a reason")
        history.broken += [
            *dict.fromkeys(opened.broken),
            *_answers(opened),
            *_charges(opened),
            *_stored(opened, result),
            *_audited(opened, result),
        ]
    return history


def _digest(opened: World) -> str:
    ledger = [(entry.kind, entry.body) for entry in opened.curator._journal.chain.entries]
    stored = json.dumps([opened.referee.store.entries(RUN), ledger], sort_keys=True)
    return hashlib.sha256(stored.encode()).hexdigest()


def _answers(opened: World) -> list[str]:
    """One answer in a lifetime, by what has left each agent, whether it arrived or not."""
    broken = []
    for name, channel in opened.channels.items():
        questions: dict[int, set[Any]] = defaultdict(set)
        asked: Counter[int] = Counter()
        given: dict[int, Any] = {}
        for method, _, reply in channel.heard:
            if method == "poll" and isinstance(reply, Signed):
                given[reply.message["question"]] = reply.message["people"]
        for method, arguments in channel.sent:
            if method == "report":
                questions[arguments[0].message["question"]].add(arguments[0].message["answer"])
            if method == "report_packed":
                questions[arguments[0].message["question"]].add(arguments[1])
        if any(len(answers) > 1 for answers in questions.values()):
            broken.append(f"one answer: {name} answered a question in two ways")
        for number in questions:
            if name == "host":
                asked.update(int(person) for person in unpack_indices(given[number]))
            else:
                asked[0] += 1
        if any(count > 1 for count in asked.values()):
            broken.append(f"one answer: a person of {name} answered two questions")
    return broken


def _charges(opened: World) -> list[str]:
    """Charged once, before it was released; released in one way."""
    broken = []
    entries = opened.curator._journal.chain.entries
    kinds = [(e.kind, str(_operation(e))) for e in entries if e.kind in ("charge", "result")]
    if any(count > 1 for count in Counter(kinds).values()):
        broken.append("charged once: an operation stands twice in the ledger")
    released: dict[str, set[bytes]] = defaultdict(set)
    for method, _, reply in opened.to_curator.heard:
        if method == "perform":
            released[reply.message["operation_id"]].add(canonical.encode(reply.message["result"]))
    for operation, results in released.items():
        if len(results) > 1:
            broken.append(f"released once: operation {operation} was released in two ways")
        if ("charge", operation) not in kinds or ("result", operation) not in kinds:
            broken.append(f"charged first: operation {operation} left, and is not in the ledger")
    return broken


def _operation(entry: Any) -> str:
    body = entry.body
    return str(body["operation_id"] if entry.kind == "result" else body["request"]["message"]["operation_id"])


def _stored(opened: World, result: dict[str, Any]) -> list[str]:
    """Check that what was acknowledged is stored, once, and that the counts are those of what is stored."""
    store = opened.referee.store
    reports = [report for question in store.questions(RUN) for report in store.reports(question)]
    signatures = Counter(report.signature.hex() for report in reports)
    broken = []
    if any(count > 1 for count in signatures.values()):
        broken.append("counted once: a report is stored twice")
    for name, channel in opened.channels.items():
        for method, _, reply in channel.heard:
            if method in ("report", "report_packed") and reply.message["report"] not in signatures:
                broken.append(f"acknowledged is stored: {name} has a receipt for a report that is not there")
    if sum(report.answered for report in reports) != result["agents"]["answered"]:
        broken.append("counted once: the result counts other answers than are stored")
    return broken


def _audited(opened: World, result: dict[str, Any]) -> list[str]:
    """Check that the transcript verifies, with the receipts that agents hold for what it counts.

    A run that ended while a question was open counts no answers to it, and its audit fails with a receipt for one.
    """
    referee = opened.referee
    if referee.store.run(RUN).configuration is None:
        return []
    folder = opened.folder / "folder"
    try:
        reports = [(q.question, pack_reports(referee.store.reports(q))) for q in referee.store.questions(RUN)]
        transcript = "".join(line + "\n" for line in referee.store.entries(RUN))
        document = {**result, "truth": None, "peak_memory_bytes": 0, "run": str(folder)}
        left = transcript, referee.participants(RUN), reports, tuple(referee.kept(RUN))
        write_run(folder, public(scenario()), document, *left)
        answers = [entry for entry in map(json.loads, referee.store.entries(RUN)) if entry["kind"] == "answers"]
        counted = {entry["body"]["question"] for entry in answers}
        receipts = [each for each in _receipts(opened) if each.message["question"] in counted]
        audit(folder, referee.identity.public, opened.pinned, receipts=receipts)
    except AuditFailed as error:
        return [f"verifies: {error.detail}"]
    except TandemError as error:
        return [f"verifies: {type(error).__name__}: {error.detail}"]
    return []


def _receipts(opened: World) -> list[Signed]:
    places: list[Path] = [opened.folder / name / "receipts" for name in names()]
    return receipts_at([place for place in places if place.is_dir() and any(place.glob("*.json"))])
