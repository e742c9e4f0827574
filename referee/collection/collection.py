"""Questions out, answers in: hands every agent at most one question, and takes at most one answer from each."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import (
    BadScenario,
    CannotWrite,
    ConfigurationMismatch,
    Forged,
    NotFound,
    PeerUnavailable,
    PolicyRefused,
    TandemError,
)
from common.scenario.resolved import parse_resolved
from common.vocabulary.mechanisms.base import LocalRandomizer
from common.vocabulary.packing import packed_bytes
from common.vocabulary.queries.base import Query, parse_query
from common.vocabulary.steps import Answers
from common.wire import messages
from common.wire.identity import Identity, Signed
from common.wire.transcript import append
from referee.collection.adding_up import add_up
from referee.collection.asked import Asked
from referee.collection.batches import Batch, form_batch, take
from referee.collection.judging import (
    Claim,
    Refusal,
    asked_slots,
    check_asked,
    check_configuration,
    closed,
    judge,
    read,
)
from referee.collection.reading import payloads
from referee.collection.roster import Roster
from referee.collection.taking import Taking
from referee.state.store import Store
from referee.state.values import Question, StoredReport

GATHER = 0.01
"""Seconds in which further reports may join the first, before they are counted."""
PATIENCE = 10
"""How many deadlines to wait for the first report of a question before the run fails."""
REPORTS = 1000
"""Participants a second that a question has further time for: so many individuals can report beside other work."""
REMEMBERED = 4
"""Questions that are kept in memory: those that are open, and the ones that were asked about last."""


class Sent(NamedTuple):
    """A report as it came: a signed message, and the packed answers of a hosted population (None: an individual)."""

    signed: Signed
    body: bytes | None = None


def reasons(taking: Taking) -> str:
    """Say why participants declined, with the number of their agents."""
    counts: Counter[str] = Counter()
    for reason, agents in taking.declined.values():
        counts[reason] += agents
    return ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items()))


class Collection:
    """The agents' side of the referee.

    Parameters
    ----------
    store
        Durable memory.
    identity
        Signs assignments.
    roster
        Everybody who is enrolled.
    clock
        Seconds since some moment, never fewer than before: by it questions are closed.
    """

    def __init__(
        self, store: Store, identity: Identity, roster: Roster, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._identity = identity
        self._roster = roster
        self.clock = clock
        self._lock = threading.RLock()
        self._arrived = threading.Condition()
        self._taking: OrderedDict[tuple[str, int], Taking] = OrderedDict()
        self._runs: dict[str, tuple[str, LocalRandomizer]] = {}
        self._newest = store.last_report()
        self._open = [(question.run, question.question) for question in store.open_questions()]
        self.rejected: Counter[str] = Counter()
        self._declined: dict[str, Counter[str]] = {}
        self.on_question: Callable[[], None] = lambda: None
        """Called when a question was opened."""

    # The protocol's side --------------------------------------------------------------------------------------------

    def ask(
        self, run: str, number: int, query: Query, count: int, deadline: float, wait: Callable[[float], None]
    ) -> tuple[Answers, str]:
        """Ask ``count`` fresh agents and collect their answers until all are in or the deadline has passed.

        A question that is already open (this referee was restarted) is taken up where it was.

        Parameters
        ----------
        wait
            Called with the seconds left; returns when something may have arrived.

        Returns
        -------
        The answers, and the root over all reports.

        Raises
        ------
        PolicyRefused
            If the run's mechanism cannot randomize what the query says; nobody is asked then.
            Also if everybody who was asked declines.
        PeerUnavailable
            If not one report came within ``PATIENCE`` deadlines.
        """
        self._agreed(run)[1].answer_kind(query.domain)  # refuses before anybody is asked
        if self._store.question(run, number) is None:
            self._ask(run, number, query, count)
        taking = self._question(run, number)
        if taking is None:
            raise NotFound(f"run {run!r} has no question {number}")
        began = self.clock()
        deadline += taking.asked.batch.participants // REPORTS
        while taking is not None and taking.open and not taking.complete:
            left = deadline * (1 if taking.heard else PATIENCE) - (self.clock() - began)
            if left <= 0:
                if not taking.heard:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
            taking = self._question(run, number)  # perhaps read anew meanwhile
        if taking is None:
            raise NotFound(f"run {run!r} has no question {number}")
        if taking.declined and sum(agents for _, agents in taking.declined.values()) == taking.question.asked:
            raise PolicyRefused(
                f"all {taking.question.asked:,} agents that were asked question {number} decline to answer: "
                f"{reasons(taking)}; their own rules, or their lifetime budgets, do not allow what the scenario asks"
            )
        self._close(taking)
        return add_up(taking.asked, self._store.reports(taking.question))

    def declined(self, run: str) -> dict[str, int]:
        """Return how many agents of a run somebody has declined for, by reason, since this referee was started."""
        found = self._declined.get(run, Counter())
        return dict(sorted(found.items()))

    def heard(self, run: str) -> tuple[int, int, int] | None:
        """Return a run's open question, how many agents it is known of, and how many were asked; None if none is."""
        for name, number in self._open:
            taking = self._question(name, number) if name == run else None
            if taking is not None:
                return number, taking.heard, taking.question.asked
        return None

    def wait(self, seconds: float) -> None:
        """Sleep until reports arrive, at most that long."""
        with self._arrived:
            arrived = self._arrived.wait(min(seconds, 1.0))
        if arrived:
            # Very many individuals report one by one: look at them together, not at all of them for each.
            time.sleep(GATHER)

    def close(self, run: str) -> None:
        """Close what is still open of a run."""
        for question in self._store.questions(run):
            taking = self._question(run, question.question) if question.open else None
            if taking is not None:
                self._close(taking)

    def _close(self, taking: Taking) -> None:
        with self._lock:
            key = (taking.question.run, taking.question.question)
            self._store.close_question(taking.question)
            self._taking.get(key, taking).open = taking.open = False
            self._open = [other for other in self._open if other != key]

    def _ask(self, run: str, number: int, query: Query, count: int) -> None:
        if count > messages.MAX_AGENTS_PER_QUESTION:
            raise BadScenario(messages.too_many(count))
        parts = take(self._store.cohorts(), count)
        asked = sum(p.stop - p.start for p in parts)
        question = Question(run, number, query.wire(), parts, asked, asked > 0)
        body = {
            "question": number,
            "query": query.wire(),
            "parts": [[p.cohort, p.start, p.stop] for p in parts],
        }
        self._store.open_question(question, append(self._store.last_entry(run), "question", body, self._identity))
        if asked:
            with self._lock:
                self._question(run, number)
                self._open = [*self._open, (run, number)]
        self.on_question()

    def _question(self, run: str, number: int) -> Taking | None:
        """Return a question of a run, and who has reported on it; one thread at a time reads it from the store."""
        key = (run, number)
        known = self._taking.get(key)
        if known is not None:
            return known
        with self._lock:
            known = self._taking.get(key)
            question = None if known is not None else self._store.question(run, number)
            if known is None and question is not None:
                known = Taking(question, self._asked(question), self._store.slots(question))
                self._taking[key] = known
                for old in [k for k, t in self._taking.items() if not t.open][: -REMEMBERED or None]:
                    del self._taking[old]
            return known

    def _asked(self, question: Question) -> Asked:
        digest, mechanism = self._agreed(question.run)
        query = parse_query(question.query)
        kind = mechanism.answer_kind(query.domain)
        return Asked(question.run, digest, question.question, query, kind, lambda: self._batch(question))

    def _batch(self, question: Question) -> Batch:
        cohorts = {c.first: c for c in self._store.cohorts()}
        return form_batch(question.parts, cohorts.__getitem__, self._roster)

    def _agreed(self, run: str) -> tuple[str, LocalRandomizer]:
        """Return the digest of a run's configuration, and how its agents randomize; also right after a restart."""
        if run not in self._runs:
            wire = self._store.run(run).configuration
            if wire is None:
                raise NotFound(f"run {run!r} has not begun")
            configuration = messages.Configuration.parse(wire)
            self._runs[run] = (configuration.fingerprint(), parse_resolved(configuration.scenario).agents.mechanism)
        return self._runs[run]

    # The agents' side -----------------------------------------------------------------------------------------------

    def poll(self, polls: Sequence[Signed]) -> list[bytes | TandemError | None]:
        """Return for each participant the open question that it has not answered yet, signed, in JSON, if there is one.

        A problem is ``Forged`` if somebody else signed the poll, ``NotFound`` if the participant is not enrolled.
        """
        found: list[bytes | TandemError | None] = []
        for signed, checked in zip(polls, payloads(polls, messages.Poll.KIND), strict=True):
            try:
                if isinstance(checked, Forged):
                    raise checked
                if str(signed.message.get("participant")) != signed.key:
                    raise Forged("somebody else signed this poll than the participant that it names")
                found.append(self.assignment(messages.Poll.parse(signed.message).participant))
            except TandemError as error:
                found.append(error)
        return found

    def assignment(self, participant: str) -> bytes | None:
        """Return the open question for a participant that it has not answered yet, signed, in JSON, if there is one.

        Raises
        ------
        NotFound
            If the participant is not enrolled.
        """
        position = self._roster.position(participant)
        if position is None:
            raise NotFound("this participant is not enrolled here")
        for run, number in self._open:
            taking = self._question(run, number)
            if taking is None or not taking.open or taking.number(position) or position in taking.declined:
                continue
            if len(taking.asked.slots(participant)):
                return self._identity.envelope(messages.Assignment.KIND, taking.asked.assignment(participant))
        return None

    def decline(self, declines: Sequence[Signed]) -> list[TandemError | None]:
        """Note which participants will not answer, and why: they are not asked that question again, nor waited for.

        A problem says why one is not acceptable; a repeated one changes nothing.
        """
        found: list[TandemError | None] = []
        with self._lock:
            for signed, checked in zip(declines, payloads(declines, messages.Decline.KIND), strict=True):
                try:
                    if isinstance(checked, Forged):
                        raise checked
                    self._decline(signed.key, messages.Decline.parse(signed.message))
                    found.append(None)
                except Refusal as refusal:
                    found.append(refusal.problem)
                except TandemError as error:
                    found.append(error)
        with self._arrived:
            self._arrived.notify_all()
        return found

    def _decline(self, key: str, said: messages.Decline) -> None:
        taking = self._question(said.run, said.question)
        if taking is None:
            raise NotFound(f"run {said.run!r} has no question {said.question}")
        slots, position = asked_slots(key, taking.asked), self._roster.position(key)
        if (said.digest, said.assignment) != (taking.asked.digest, taking.asked.fingerprint(key)):
            raise ConfigurationMismatch(f"this declines another assignment than that of question {said.question}")
        if not taking.open:
            raise closed(said.question)
        if position is not None and position not in taking.declined and not taking.number(position):
            taking.decline(position, said.reason, len(slots))
            self._declined.setdefault(said.run, Counter())[said.reason] += len(slots)

    def room(self, headers: Sequence[Signed]) -> list[int | TandemError]:
        """Return for the header of each hosted population's report how many bytes of answers may follow it.

        A problem says why none may: as in :meth:`accept`, as far as that can be said without the answers.
        """
        found: list[int | TandemError] = []
        for signed, checked in zip(headers, payloads(headers, messages.PackedReport.KIND), strict=True):
            try:
                if isinstance(checked, Forged):
                    raise checked
                report = messages.PackedReport.parse(signed.message)
                check_configuration(report, self._agreed(report.run)[0])
                taking = self._question(report.run, report.question)
                if taking is None:
                    raise NotFound(f"run {report.run!r} has no question {report.question}")
                check_asked(report, signed.key, taking.asked)
                found.append(packed_bytes(report.people, taking.asked.kind))
            except Refusal as refusal:
                found.append(refusal.problem)
            except TandemError as error:
                found.append(error)
        self.rejected.update(problem.problem for problem in found if isinstance(problem, TandemError))
        return found

    def accept(self, sent: Sequence[Sent]) -> list[TandemError | None]:
        """Take reports; those that are acceptable are on disk when this returns.

        The same report again is accepted again. A problem says why one is not acceptable; its reason is counted, and
        nothing is changed by it.
        """
        kinds = [messages.Report.KIND if report.body is None else messages.PackedReport.KIND for report in sent]
        checked: list[bytes | Forged] = [b""] * len(sent)
        for kind in set(kinds):
            places = [i for i, found in enumerate(kinds) if found == kind]
            for i, payload in zip(places, payloads([sent[i].signed for i in places], kind), strict=True):
                checked[i] = payload
        outcomes: list[TandemError | None] = [None] * len(sent)
        fresh: list[tuple[Taking, StoredReport]] = []
        with self._lock:
            earlier: dict[tuple[str, int, str], StoredReport] = {}
            for i, (report, payload) in enumerate(zip(sent, checked, strict=True)):
                try:
                    if isinstance(payload, Forged):
                        raise payload
                    claim = read(report.signed, payload, report.body)
                    taking, accepted, new = self._judge(claim, earlier)
                    if new:
                        earlier[claim.report.run, claim.report.question, claim.key] = accepted
                        fresh.append((taking, accepted))
                except Refusal as refusal:
                    outcomes[i] = refusal.problem
                except TandemError as error:
                    outcomes[i] = error
            try:
                self._keep(fresh)
            except CannotWrite as error:
                return [error] * len(sent)
        self.rejected.update(problem.problem for problem in outcomes if problem is not None)
        return outcomes

    def _judge(
        self, claim: Claim, earlier: dict[tuple[str, int, str], StoredReport]
    ) -> tuple[Taking, StoredReport, bool]:
        run, number = claim.report.run, claim.report.question
        check_configuration(claim.report, self._agreed(run)[0])
        taking = self._question(run, number)
        if taking is None:
            raise NotFound(f"run {run!r} has no question {number}")
        known = earlier.get((run, number, claim.key))
        stored = taking.number(self._roster.position(claim.key))
        if known is None and stored:
            known = self._store.report(stored)
        accepted = judge(claim, taking.asked, known, taking.open)
        return taking, accepted, accepted is not known

    def _keep(self, fresh: list[tuple[Taking, StoredReport]]) -> None:
        if not fresh:
            return
        first = self._newest + 1
        try:
            self._store.add_reports(first, [(taking.question.key, report) for taking, report in fresh])
        except (SQLAlchemyError, OSError) as error:
            # Perhaps it was stored all the same: what is in memory is read from the store again.
            self._taking.clear()
            with suppress(SQLAlchemyError, OSError):
                self._newest = self._store.last_report()
            raise CannotWrite("reports cannot be stored at present: nothing was acknowledged, hand in again") from error
        self._newest += len(fresh)
        for number, (taking, report) in enumerate(fresh, start=first):
            taking.enter(report.slot, number)
        with self._arrived:
            self._arrived.notify_all()
