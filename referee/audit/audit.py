"""Audit a run folder offline: everything that can be recomputed is recomputed, nobody has to be trusted.

Checked: the hash chain and the referee's signature of every entry; the committed order and who was asked; each report's
signature, its assignment and that nobody answered twice; the counts and roots of every batch; the curator's signature
on its terms and each release; the protocol's questions, message pattern and result, by replay; the privacy cost, from
the declared events; the result document and the scenario's file.

What no audit can see: reports that the referee threw away before it signed anything about them, and whether the keys
that the transcript names belong to whom one thinks (compare them with keys known from elsewhere).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from common.core import canonical
from common.core.errors import AuditFailed, TandemError
from common.privacy.budget import cost
from common.privacy.events import Event, NoEvent, parse_event
from common.scenario.resolved import parse_resolved
from common.vocabulary.hypotheses.base import parse_hypothesis
from common.vocabulary.packing import pack_one, unpack_answers
from common.vocabulary.queries.base import Query
from common.vocabulary.steps import AskAgents, AskCurator
from common.wire import messages
from common.wire.identity import Signed, verify
from common.wire.transcript import Entry, read, split
from referee.collection.batches import Batch, assemble, assign, form_batch, report_root
from referee.collection.order import commitment, public_randomness
from referee.protocols.base import PROTOCOLS, Outcome, Script
from referee.protocols.driver import drive
from referee.protocols.patterns import Pattern
from referee.runs.execution import check_release, check_terms
from referee.runs.results import result_document
from referee.state.runfolder import read_file, unpack_reports
from referee.state.store import Cohort, Part, Participant, StoredReport


@dataclass(frozen=True)
class Audit:
    """What an audit found: how much was checked, and the cost recomputed from the events."""

    entries: int
    reports: int
    answers: int
    operations: int
    status: str
    epsilon: float
    delta: float


def audit(folder: Path, referee_key: str | None = None, curator_key: str | None = None) -> Audit:
    """Audit a run folder.

    Parameters
    ----------
    folder
        As :mod:`referee.state.runfolder` writes it.
    referee_key
        The referee's key as known from elsewhere; by default the one that the transcript names.
    curator_key
        The curator's key as known from elsewhere; by default the one that signed the terms.

    Raises
    ------
    AuditFailed
        Saying where it fails and why.
    """
    entries = read(split(read_file(folder, "transcript.jsonl")), referee_key)
    auditor = _Auditor(folder, entries, curator_key)
    try:
        return auditor.audit()
    except AuditFailed:
        raise
    except TandemError as error:
        raise AuditFailed(f"{auditor.where}: {error.detail}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise AuditFailed(f"{auditor.where}: not what an honest referee writes ({error!r})") from None


class _Auditor:
    def __init__(self, folder: Path, entries: Sequence[Entry], curator_key: str | None) -> None:
        self._folder = folder
        self._curator_key = curator_key
        self._entries = entries
        self.where = "the configuration"

    def audit(self) -> Audit:
        first, last = self._entries[0], self._entries[-1]
        self._check_kinds([entry.kind for entry in self._entries])
        self._configuration = messages.Configuration.parse(first.body["configuration"])
        if self._configuration.referee != first.body["referee"]:
            raise AuditFailed("the configuration names another referee than the transcript")
        self._digest = self._configuration.fingerprint()
        self._scenario = parse_resolved(self._configuration.scenario)
        self._participants = tuple(Participant(k, int(f), int(a)) for k, f, a in first.body["participants"])
        self._check_numbers()
        self._check_order(last.body["order"])
        terms = self._terms()
        self._reports = self._asked = self._answers = self._operations = 0
        self._events: list[Event] = []
        published = last.body["result"]
        outcome = self._replay(published)
        self._check_result(published, outcome, terms)
        epsilon, delta = self._check_cost(terms)
        self._check_files(published)
        return Audit(
            len(self._entries), self._reports, self._answers, self._operations, str(published["status"]), epsilon, delta
        )

    def _check_kinds(self, kinds: list[str]) -> None:
        if kinds[0] != "configuration" or kinds[-1] != "result":
            raise AuditFailed(f"a finished run goes from configuration to result, found {kinds[0]} to {kinds[-1]}")
        for number, kind in enumerate(kinds[1:-1], start=2):
            if kind not in (("terms",) if number == 2 else ("operation", "question", "answers")):
                raise AuditFailed(f"transcript line {number}: a {kind!r} does not belong here")

    def _check_numbers(self) -> None:
        """Check that every agent has one number, one owner and one place in one order."""
        self.where = "the numbers of agents"
        after = 0
        for participant in self._participants:
            if participant.first != after or participant.agents < 1:
                raise AuditFailed(f"agent {after} does not belong to exactly one participant")
            after += participant.agents
        if len({participant.key for participant in self._participants}) != len(self._participants):
            raise AuditFailed("a participant is listed twice")
        orders = sorted(self._configuration.order, key=lambda promised: promised.first)
        for promised, limit in zip(orders, [*(p.first for p in orders[1:]), after], strict=True):
            if promised.first + promised.agents > limit:
                raise AuditFailed(f"agents {promised.first}... are in two orders, or not enrolled")

    def _check_order(self, seeds: dict[str, str]) -> None:
        self.where = "the order of agents"
        self._cohorts: dict[int, Cohort] = {}
        for promised in self._configuration.order:
            seed = seeds[str(promised.first)]
            if commitment(seed) != promised.sha256:
                raise AuditFailed(f"the seed of the order of agents {promised.first}... is not the one committed to")
            self._cohorts[promised.first] = Cohort(promised.first, promised.agents, seed, promised.used)

    def _terms(self) -> messages.Terms | None:
        self.where = "the curator's terms"
        entry = next((e for e in self._entries if e.kind == "terms"), None)
        if entry is None:
            return None
        signed = Signed.parse(entry.body["terms"])
        if self._curator_key not in (None, signed.key):
            raise AuditFailed(f"another curator signed the terms: {signed.key[:16]}...")
        self._curator = signed.key
        return check_terms(signed, self._configuration)

    # Replay ---------------------------------------------------------------------------------------------------------

    def _replay(self, published: dict[str, Any]) -> Outcome | None:
        """Feed the transcript's replies to a fresh generator; it must ask the same and end the same."""
        self._pending = list(self._entries[2:-1])
        protocol = PROTOCOLS[self._scenario.protocol]()
        public = public_randomness(self._configuration.scenario, self._configuration.order)
        script, pattern = protocol.script(self._scenario, public), protocol.agreed(self._scenario)
        if published["status"] not in ("done", "exhausted"):
            self._replay_cut_off(script, pattern)
            return None
        outcome = drive(script, pattern, self._exchange, lambda note: None)
        self.where = "the result"
        if self._pending:
            raise AuditFailed(
                f"transcript line {self._pending[0].index + 1}: the protocol had ended before this message"
            )
        return outcome

    def _check_result(self, published: dict[str, Any], outcome: Outcome | None, terms: messages.Terms | None) -> None:
        """Check that the signed result is what the transcript leads to; a run that was cut off has no answer."""
        self.where = "the result"
        if outcome is not None and terms is None:
            raise AuditFailed("a run ended by itself without the curator's terms")
        agents = published["agents"]
        asked = self._asked + sum(int(b) - int(a) for e in self._pending for _, a, b in e.body["parts"])
        if agents["asked"] != asked or agents["answered"] < self._answers:
            raise AuditFailed(f"{asked} agents were asked, {self._answers} answered, found {agents}")
        if outcome is not None and agents["answered"] != self._answers:
            raise AuditFailed(f"{self._answers} agents answered, found {agents['answered']}")
        found = result_document(
            self._scenario,
            outcome,
            status=outcome.status if outcome else str(published["status"]),
            reason=outcome.reason if outcome else str(published["reason"]),
            terms=terms,
            agents=agents,
            seconds={},
        )
        del found["seconds"]
        for name in sorted(found.keys() | published.keys()):
            if name not in found or canonical.encode(published.get(name)) != canonical.encode(found[name]):
                raise AuditFailed(f"the result's {name} is not what the transcript's answers lead to")

    def _replay_cut_off(self, script: Script, pattern: Pattern) -> None:
        """Replay a run that did not end by itself up to its last message; only an open question may be left."""

        class _Over(Exception):
            pass

        def exchange(number: int, step: AskCurator | AskAgents) -> Any:
            if not self._pending:
                raise _Over
            if isinstance(step, AskAgents) and len(self._pending) == 1 and self._pending[0].kind == "question":
                self._asked_of(self._pending[0], number, step)
                raise _Over
            return self._exchange(number, step)

        try:
            outcome = drive(script, pattern, exchange, lambda note: None)
        except _Over:
            return
        raise AuditFailed(f"the protocol ends with {outcome.status!r} on these answers, the result hides it")

    def _exchange(self, number: int, step: AskCurator | AskAgents) -> Any:
        if isinstance(step, AskCurator):
            return self._operation(number, step)
        return self._question(number, step)

    def _next(self, kind: str, number: int) -> Entry:
        if not self._pending or self._pending[0].kind != kind:
            found = f"found {self._pending[0].kind!r}" if self._pending else "the transcript ends"
            place = self._pending[0].index + 1 if self._pending else len(self._entries)
            raise AuditFailed(f"transcript line {place}: message {number} of the protocol is a {kind!r}, {found}")
        entry = self._pending.pop(0)
        self.where = f"transcript line {entry.index + 1} ({kind})"
        return entry

    def _operation(self, number: int, step: AskCurator) -> dict[str, Any]:
        entry = self._next("operation", number)
        request = messages.Perform(
            run=self._configuration.run,
            digest=self._digest,
            operation_id=str(number),
            operation=step.operation.wire(),
        )
        sent = verify(Signed.parse(entry.body["request"]), messages.Perform.KIND, self._configuration.referee)
        if sent != request.wire():
            raise AuditFailed(f"{self.where}: the request is not the one that the protocol makes here")
        result = check_release(entry.body, request, self._curator)
        self._operations += 1
        event = parse_event(result["event"])
        if isinstance(event, NoEvent) and len(result) > 1:
            raise AuditFailed(f"{self.where}: something was released that the curator declares to cost nothing")
        if not isinstance(event, NoEvent):
            self._events.append(event)
        if "hypothesis" in result:
            parse_hypothesis(result["hypothesis"])
        return result

    def _question(self, number: int, step: AskAgents) -> Any:
        batch = self._asked_of(self._next("question", number), number, step)
        self._asked += len(batch.members)
        answered = self._next("answers", number)
        kind = self._scenario.agents.mechanism.answer_kind(step.query.domain)
        reports = self._read_reports(number, batch, step.query)
        answers = assemble(batch, reports, kind)
        claimed = {name: answered.body[name] for name in ("question", "asked", "answered", "root")}
        actual = {
            "question": number,
            "asked": len(batch.members),
            "answered": len(answers.values),
            "root": report_root(reports),
        }
        if claimed != actual:
            raise AuditFailed(
                f"{self.where}: the reports of question {number} do not match: {claimed} against {actual}"
            )
        self._answers += len(answers.values)
        return answers

    def _asked_of(self, entry: Entry, number: int, step: AskAgents) -> Batch:
        """Check a question, and return the agents that it goes to."""
        if entry.body["query"] != step.query.wire() or entry.body["question"] != number:
            raise AuditFailed(f"{self.where}: the question is not the one that the protocol asks here")
        parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in entry.body["parts"])
        return self._batch(parts, min(step.count, messages.MAX_AGENTS_PER_QUESTION))

    def _batch(self, parts: tuple[Part, ...], wanted: int) -> Batch:
        """Check that a question takes the next agents of the committed orders, and no agent twice."""
        for part in parts:
            cohort = self._cohorts[part.cohort]
            if part.start != cohort.used or not part.start < part.stop <= cohort.agents:
                raise AuditFailed(f"{self.where}: agents are not taken in the committed order")
            self._cohorts[part.cohort] = Cohort(cohort.first, cohort.agents, cohort.seed, part.stop)
        asked = sum(p.stop - p.start for p in parts)
        left = sum(c.agents - c.used for c in self._cohorts.values())
        if asked > wanted or (asked < wanted and left > 0):
            raise AuditFailed(f"{self.where}: {wanted} agents were to be asked, {asked} were")
        return form_batch(parts, self._cohorts.__getitem__, self._participants)

    def _read_reports(self, number: int, batch: Batch, query: Query) -> list[StoredReport]:
        """Read the reports on a question; each must be signed, for exactly it, by the participant it counts for."""
        found: dict[str, StoredReport] = {}
        kind = self._scenario.agents.mechanism.answer_kind(query.domain)
        for header, body in unpack_reports(read_file(self._folder, f"reports/{number}.reports")):
            signed = Signed.parse(header)
            people = len(batch.slots(signed.key))
            report: messages.Report | messages.PackedReport
            if signed.kind == messages.Report.KIND:
                report = messages.Report.parse(verify(signed, messages.Report.KIND))
                if body != pack_one(report.answer, kind):
                    raise AuditFailed(f"{self.where}: an answer is not the one that was signed")
            else:
                report = messages.PackedReport.parse(verify(signed, messages.PackedReport.KIND))
                if hashlib.sha256(body).hexdigest() != report.body_sha256:
                    raise AuditFailed(f"{self.where}: packed answers are not the ones that were signed")
                if report.people != people:
                    raise AuditFailed(f"{self.where}: a report speaks for {report.people} agents, {people} were asked")
            if (report.run, report.digest, report.question) != (
                self._configuration.run,
                self._digest,
                number,
            ):
                raise AuditFailed(f"{self.where}: a report answers another question")
            if people == 0 or signed.key in found:
                raise AuditFailed(f"{self.where}: {signed.key[:16]}... was not asked, or reports twice")
            asked = assign(batch, signed.key, self._configuration.run, self._digest, number, query)
            if report.assignment != asked.fingerprint():
                raise AuditFailed(
                    f"{self.where}: {signed.key[:16]}... was asked something else than the transcript says"
                )
            answered = int(unpack_answers(body, people, kind)[0].sum())
            found[signed.key] = StoredReport(signed.key, report.report_id, answered, header, body)
        self._reports += len(found)
        return [found[key] for key in sorted(found)]

    # Cost -----------------------------------------------------------------------------------------------------------

    def _check_cost(self, terms: messages.Terms | None) -> tuple[float, float]:
        """Recompute what the declared events cost; it must be within the curator's published guarantee."""
        self.where = "the privacy cost"
        if terms is None:
            return 0.0, 0.0
        if terms.epsilon is None or terms.delta is None:
            return math.inf, 1.0
        spent = cost([(event, 1) for event in self._events], terms.delta) if self._events else 0.0
        if spent > terms.epsilon:
            raise AuditFailed(f"the declared events cost epsilon = {spent:g}, the curator promised {terms.epsilon:g}")
        # What a run that stopped by itself has spent is no guarantee; the cap is.
        return terms.epsilon, terms.delta

    def _check_files(self, published: dict[str, Any]) -> None:
        self.where = "scenario.yaml"
        try:
            tree = yaml.safe_load(read_file(self._folder, "scenario.yaml").decode("utf-8"))
        except yaml.YAMLError:
            raise AuditFailed("scenario.yaml is not YAML: it was changed") from None
        if parse_resolved(tree) != self._scenario:
            raise AuditFailed("scenario.yaml differs from the signed configuration")
        self.where = "result.json"
        stored = canonical.decode(read_file(self._folder, "result.json"))
        for name, value in published.items():
            if canonical.encode(stored.get(name)) != canonical.encode(value):
                raise AuditFailed(f"result.json: {name} differs from the signed transcript")
