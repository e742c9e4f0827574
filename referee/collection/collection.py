"""Questions out, answers in: hands every agent at most one question, and takes at most one answer from each."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.core.errors import Conflict, NotFound, PeerUnavailable
from common.scenario.resolved import parse_resolved
from common.vocabulary.mechanisms.base import LocalRandomizer
from common.vocabulary.queries.base import Query, parse_query
from common.vocabulary.steps import Answers
from common.wire import messages
from common.wire.identity import Identity, Signed
from common.wire.transcript import append
from referee.collection.asked import Asked
from referee.collection.batches import Batch, assemble, form_batch, report_root, take
from referee.collection.judging import (
    Claim,
    Refusal,
    check_configuration,
    closed,
    judge,
    read_individual,
    read_packed,
)
from referee.state.store import Store
from referee.state.values import Question

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
    clock
        Seconds since some moment, never fewer than before: by it questions are closed.
    """

    def __init__(self, store: Store, identity: Identity, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._identity = identity
        self.clock = clock
        self._arrived = threading.Condition()
        self._asked: dict[tuple[str, int], Asked] = {}
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
        self._agreed(run)[1].answer_kind(query.domain)  # refuses before anybody is asked
        question = self._store.question(run, number) or self._open(run, number, query, count)
        asked = self._parsed(question)
        waiting = asked.batch.owners() if question.open else set()
        began = self.clock()
        while waiting and not waiting <= (reported := self._store.reported(run, number)):
            left = deadline * (1 if reported else PATIENCE) - (self.clock() - began)
            if left <= 0:
                if not reported:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
        self._store.close_question(run, number)
        self._asked.pop((run, number), None)
        return assemble(asked.batch, self._store.reports(run, number), asked.kind)

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
        self._asked = {}
        self._store.open_question(question, append(self._store.last_entry(run), "question", body, self._identity))
        self.opened += 1
        return question

    def _question(self, run: str, number: int) -> Asked | None:
        """Return a question of a run as it was asked."""
        known = self._asked.get((run, number))
        if known is not None:
            return known
        question = self._store.question(run, number)
        return None if question is None else self._parsed(question)

    def _parsed(self, question: Question) -> Asked:
        """Return a question as it was asked; kept while it takes answers, so that it is parsed once for all reports."""
        key = (question.run, question.question)
        digest, mechanism = self._agreed(question.run)
        query = parse_query(question.query)
        kind = mechanism.answer_kind(query.domain)
        asked = Asked(question.run, digest, question.question, query, kind, lambda: self._batch(question))
        return self._asked.setdefault(key, asked) if question.open else asked

    def _batch(self, question: Question) -> Batch:
        cohorts = {c.first: c for c in self._store.cohorts()}
        return form_batch(question.parts, cohorts.__getitem__, tuple(self._store.participants()))

    # The agents' side -----------------------------------------------------------------------------------------------

    def assignment(self, participant: str) -> Signed | None:
        """Return the open question for a participant that it has not answered yet, if there is one."""
        for run, number in self._store.open_questions():
            asked = self._question(run, number)
            if asked and asked.agents(participant) and self._store.report(run, number, participant) is None:
                assignment = asked.assignment(participant)
                return self._identity.sign(assignment.KIND, assignment.wire())
        return None

    def accept(self, signed: Signed) -> None:
        """Take an individual agent's report; the same report again is accepted again.

        Raises
        ------
        Refused, Forged, BadMessage, NotFound
            If it is not acceptable; nothing is changed and the reason is counted.
        """
        with _problems():
            self._take(read_individual(signed))

    def accept_packed(self, signed: Signed, body: bytes) -> None:
        """Take a hosted population's report: signed header and packed body.

        Raises
        ------
        Refused, Forged, BadMessage, NotFound
            If it is not acceptable; nothing is changed and the reason is counted.
        """
        with _problems():
            self._take(read_packed(signed, body))

    def _agreed(self, run: str) -> tuple[str, LocalRandomizer]:
        """Return the digest of a run's configuration, and how its agents randomize; also right after a restart."""
        if run not in self._runs:
            wire = self._store.run(run).configuration
            if wire is None:
                raise NotFound(f"run {run!r} has not begun")
            configuration = messages.Configuration.parse(wire)
            self._runs[run] = (configuration.fingerprint(), parse_resolved(configuration.scenario).agents.mechanism)
        return self._runs[run]

    def _take(self, claim: Claim) -> None:
        run, number = claim.report.run, claim.report.question
        check_configuration(claim.report, self._agreed(run)[0])
        asked = self._question(run, number)
        if asked is None:
            raise NotFound(f"run {run!r} has no question {number}")
        known = self._store.report(run, number, claim.key)
        accepted = judge(claim, asked, known, self._store.is_open(run, number))
        if accepted is known:
            return
        try:
            if not self._store.add_reports(run, number, [accepted]):
                raise closed(number)
        except Conflict:
            # Perhaps the same report came twice at the same moment.
            known = self._store.report(run, number, claim.key)
            if known is None or judge(claim, asked, known) is not known:
                raise
        with self._arrived:
            self._arrived.notify_all()


@contextmanager
def _problems() -> Iterator[None]:
    """Answer a refusal as the problem that it is."""
    try:
        yield
    except Refusal as refusal:
        raise refusal.problem from None
