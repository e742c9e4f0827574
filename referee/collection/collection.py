"""Questions out, answers in: hands every agent at most one question, and takes at most one answer from each."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from common.core.errors import (
    AlreadyAnswered,
    BadMessage,
    ConfigurationMismatch,
    Conflict,
    NotFound,
    PatternViolation,
    PeerUnavailable,
)
from common.scenario.resolved import parse_resolved
from common.vocabulary.mechanisms.base import LocalRandomizer
from common.vocabulary.packing import AnswerKind, pack_one, unpack_answers
from common.vocabulary.queries.base import Query, parse_query
from common.vocabulary.steps import Answers
from common.wire import messages
from common.wire.identity import Identity, Signed, verify
from common.wire.transcript import append
from referee.collection.batches import Batch, assemble, assign, form_batch, report_root, take
from referee.state.store import Cohort, Question, Store, StoredReport

GATHER = 0.01
"""Seconds in which further reports may join the first, before they are counted."""
PATIENCE = 10
"""How many deadlines to wait for the first report of a question before the run fails."""


class Collection:
    """The agents' side of the referee.

    Parameters
    ----------
    store
        Durable memory.
    identity
        Signs assignments.
    """

    def __init__(self, store: Store, identity: Identity) -> None:
        self._store = store
        self._identity = identity
        self._arrived = threading.Condition()
        self._batches: dict[tuple[str, int], Batch] = {}
        self._runs: dict[str, tuple[str, LocalRandomizer]] = {}
        self.rejected: Counter[str] = Counter()
        self.opened = 0

    # The protocol's side --------------------------------------------------------------------------------------------

    def ask(
        self, run: str, number: int, query: Query, count: int, deadline: float, wait: Callable[[float], None]
    ) -> Answers:
        """Ask ``count`` fresh agents and collect their answers until all are in or the deadline has passed.

        A question that is already open (this referee was restarted) is taken up where it was.

        Parameters
        ----------
        wait
            Called with the seconds left; returns when something may have arrived.

        Raises
        ------
        PolicyRefused
            If the run's mechanism cannot randomize what the query says; nobody is asked then.
        PeerUnavailable
            If not one report came within ``PATIENCE`` deadlines.
        """
        kind = self._agreed(run)[1].answer_kind(query.domain)
        question = self._store.question(run, number) or self._open(run, number, query, count)
        batch = self._batch(question)
        waiting = batch.owners() if question.open else set()
        began = time.monotonic()
        while waiting and not waiting <= (reported := self._store.reported(run, number)):
            left = deadline * (1 if reported else PATIENCE) - (time.monotonic() - began)
            if left <= 0:
                if not reported:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
        self._store.close_question(run, number)
        self._batches.pop((run, number), None)
        return assemble(batch, self._store.reports(run, number), kind)

    def wait(self, seconds: float) -> None:
        """Sleep until reports arrive, at most that long."""
        with self._arrived:
            arrived = self._arrived.wait(min(seconds, 1.0))
        if arrived:
            # Very many individuals report one by one: look at them together, not at all of them for each.
            time.sleep(GATHER)

    def summary(self, run: str, number: int) -> dict[str, object]:
        """Describe the answers of a closed question for the transcript: counts and the root over all reports."""
        question = self._store.question(run, number)
        reports = self._store.reports(run, number)
        return {
            "asked": question.asked if question else 0,
            "answered": sum(r.answered for r in reports),
            "root": report_root(reports),
        }

    def _open(self, run: str, number: int, query: Query, count: int) -> Question:
        parts = take(self._store.cohorts(), min(count, messages.MAX_AGENTS_PER_QUESTION))
        asked = sum(p.stop - p.start for p in parts)
        question = Question(run, number, query.wire(), parts, asked, asked > 0)
        body = {
            "question": number,
            "query": query.wire(),
            "parts": [[p.cohort, p.start, p.stop] for p in parts],
        }
        self._batches = {}
        self._store.open_question(question, append(self._store.last_entry(run), "question", body, self._identity))
        self.opened += 1
        return question

    def _batch(self, question: Question) -> Batch:
        key = (question.run, question.question)
        if key not in self._batches:
            cohorts = {c.first: c for c in self._store.cohorts()}

            def cohort(first: int) -> Cohort:
                return cohorts[first]

            self._batches[key] = form_batch(question.parts, cohort, tuple(self._store.participants()))
        return self._batches[key]

    # The agents' side -----------------------------------------------------------------------------------------------

    def assignment(self, participant: str) -> Signed | None:
        """Return the open question for a participant that it has not answered yet, if there is one."""
        for question in self._store.open_questions():
            batch = self._batch(question)
            slots = batch.slots(participant)
            if slots.size and self._store.report(question.run, question.question, participant) is None:
                assignment = self._assignment(question, participant)
                return self._identity.sign(assignment.KIND, assignment.wire())
        return None

    def _assignment(self, question: Question, participant: str) -> messages.Assignment:
        digest = self._agreed(question.run)[0]
        batch = self._batch(question)
        return assign(batch, participant, question.run, digest, question.question, question.query)

    def accept(self, signed: Signed) -> None:
        """Take an individual agent's report; the same report again is accepted again.

        Raises
        ------
        Refused, Forged, BadMessage, NotFound
            If it is not acceptable; nothing is changed and the reason is counted.
        """
        report = messages.Report.parse(verify(signed, messages.Report.KIND))
        self._take(signed, report, pack_one(report.answer, self._kind(report)), 1)

    def accept_packed(self, signed: Signed, body: bytes) -> None:
        """Take a hosted population's report: signed header and packed body.

        Raises
        ------
        Refused, Forged, BadMessage, NotFound
            If it is not acceptable; nothing is changed and the reason is counted.
        """
        report = messages.PackedReport.parse(verify(signed, messages.PackedReport.KIND))
        if hashlib.sha256(body).hexdigest() != report.body_sha256:
            raise BadMessage("the packed body does not match the SHA-256 in its signed header")
        self._take(signed, report, body, report.people)

    def _agreed(self, run: str) -> tuple[str, LocalRandomizer]:
        """Return the digest of a run's configuration, and how its agents randomize; also right after a restart."""
        if run not in self._runs:
            wire = self._store.run(run).configuration
            if wire is None:
                raise NotFound(f"run {run!r} has not begun")
            configuration = messages.Configuration.parse(wire)
            self._runs[run] = (configuration.fingerprint(), parse_resolved(configuration.scenario).agents.mechanism)
        return self._runs[run]

    def _kind(self, report: messages.Report | messages.PackedReport) -> AnswerKind:
        """Return what an answer to the question that a report names must be."""
        digest, mechanism = self._agreed(report.run)
        if report.digest != digest:
            raise ConfigurationMismatch(
                f"the report names configuration {report.digest[:12]}..., the run has {digest[:12]}..."
            )
        return mechanism.answer_kind(parse_query(self._question(report).query).domain)

    def _question(self, report: messages.Report | messages.PackedReport) -> Question:
        question = self._store.question(report.run, report.question)
        if question is None:
            raise NotFound(f"run {report.run!r} has no question {report.question}")
        return question

    def _take(self, signed: Signed, report: messages.Report | messages.PackedReport, body: bytes, people: int) -> None:
        kind, question = self._kind(report), self._question(report)
        if self._repeats(signed, report, body):
            return
        if not question.open:
            raise PatternViolation(f"question {report.question} is closed")
        assigned = len(self._batch(question).slots(signed.key))
        if assigned == 0:
            raise PatternViolation(f"this agent was not asked question {report.question}")
        if people != assigned:
            raise BadMessage(f"question {report.question} asked {assigned} agents of this participant, found {people}")
        if report.assignment != self._assignment(question, signed.key).fingerprint():
            raise ConfigurationMismatch(
                f"the report answers another assignment than that of question {report.question}"
            )
        answered: NDArray[np.bool_] = unpack_answers(body, people, kind)[0]
        stored = StoredReport(signed.key, report.report_id, int(answered.sum()), signed.wire(), body)
        try:
            if not self._store.add_reports(report.run, report.question, [stored]):
                raise PatternViolation(f"question {report.question} is closed")
        except Conflict:
            # Perhaps the same report came twice at the same moment.
            if not self._repeats(signed, report, body):
                raise
        with self._arrived:
            self._arrived.notify_all()

    def _repeats(self, signed: Signed, report: messages.Report | messages.PackedReport, body: bytes) -> bool:
        known = self._store.report(report.run, report.question, signed.key)
        if known is not None and (known.header != signed.wire() or known.body != body):
            raise AlreadyAnswered(f"this agent has already answered question {report.question}")
        return known is not None
