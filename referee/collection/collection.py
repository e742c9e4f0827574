"""Questions out, answers in: hands every agent at most one question, and takes at most one answer from each.

Any number of processes take reports on one database. The reports are one numbered list. A process adds to it in a turn
of its own and after it has read what the others added, so that what it has in memory is complete whenever it stores.
The number of a report is the primary key: whoever has missed one cannot add the next.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import CannotWrite, Forged, NotFound, PeerUnavailable, TandemError
from common.scenario.resolved import parse_resolved
from common.vocabulary.mechanisms.base import LocalRandomizer
from common.vocabulary.queries.base import Query, parse_query
from common.vocabulary.steps import Answers
from common.wire import messages
from common.wire.identity import Identity, Signed
from common.wire.transcript import append
from referee.collection.adding_up import add_up
from referee.collection.asked import Asked
from referee.collection.batches import Batch, form_batch, take
from referee.collection.judging import Claim, Refusal, check_configuration, judge, read
from referee.collection.reading import payloads
from referee.collection.registrar import Registrar
from referee.collection.taking import Taking
from referee.state.store import Store
from referee.state.values import Question, StoredReport, Taken

GATHER = 0.01
"""Seconds in which further reports may join the first, before they are counted."""
PATIENCE = 10
"""How many deadlines to wait for the first report of a question before the run fails."""
_LATER = "nothing can be stored at present, and nothing was acknowledged: say it again"
REMEMBERED = 4
"""Questions that are kept in memory: those that are open, and the ones that were asked about last."""


class Sent(NamedTuple):
    """A report as it came: a signed message, and the packed answers of a hosted population (None: an individual)."""

    signed: Signed
    body: bytes | None = None


class Collection:
    """The agents' side of the referee.

    Parameters
    ----------
    store
        Durable memory.
    identity
        Signs assignments.
    registrar
        Knows everybody who is enrolled.
    clock
        Seconds since some moment, never fewer than before: by it questions are closed.
    process
        The name of this process among all of this referee's.
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        registrar: Registrar,
        clock: Callable[[], float] = time.monotonic,
        process: str = "",
    ) -> None:
        self._store = store
        self._identity = identity
        self._registrar = registrar
        self._roster = registrar.roster
        self.clock = clock
        self._lock = threading.RLock()
        self._arrived = threading.Condition()
        self._taking: OrderedDict[tuple[str, int], Taking] = OrderedDict()
        self._runs: dict[str, tuple[str, LocalRandomizer]] = {}
        self._newest = store.last_report()
        self._open = list(store.open_questions().values())
        self._process = process
        self.rejected = store.rejected(process)
        self._noted = self.rejected.total()
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
        while taking is not None and taking.open and not taking.complete:
            left = deadline * (1 if taking.heard else PATIENCE) - (self.clock() - began)
            if left <= 0:
                self.refresh()  # what other processes have acknowledged has come
                if not taking.heard:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
            taking = self._question(run, number)  # perhaps read anew meanwhile
        if taking is None:
            raise NotFound(f"run {run!r} has no question {number}")
        self._close(taking)
        return add_up(taking.asked, self._store.reports(taking.question))

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

    def refresh(self) -> None:
        """Learn what other processes have stored: questions that were opened or closed, and reports.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the store cannot be read at present.
        """
        self._note_rejected()
        with self._lock:
            questions = self._store.open_questions()
            self._learn(self._store.taken(self._newest), questions.keys())
            fresh = [place for place in questions.values() if place not in self._open]
            for run, number in fresh:
                self._question(run, number)  # before anybody asks for it
            self._open = list(questions.values())
        if fresh:
            self.on_question()

    def count_rejected(self) -> int:
        """Return how many reports all processes have refused, as far as they have said so."""
        self._note_rejected()
        return self._store.rejected().total()

    def _note_rejected(self) -> None:
        counts = dict(self.rejected)
        if sum(counts.values()) != self._noted:
            self._store.keep_rejected(self._process, counts)
            self._noted = sum(counts.values())

    def _learn(self, taken: Sequence[Taken], still_open: AbstractSet[int]) -> None:
        """Take over which reports were stored by others, and which questions still take any."""
        takings = {taking.question.key: taking for taking in self._taking.values()}
        for report in taken:
            self._newest = report.number
            if report.question in takings:
                takings[report.question].enter(report.slot, report.number)
        for key, taking in takings.items():
            taking.open = taking.open and key in still_open
        if taken:
            with self._arrived:
                self._arrived.notify_all()

    def _close(self, taking: Taking) -> None:
        with self._lock:
            key = (taking.question.run, taking.question.question)
            self._store.close_question(taking.question)
            self._taking.get(key, taking).open = taking.open = False
            self._open = [other for other in self._open if other != key]

    def _ask(self, run: str, number: int, query: Query, count: int) -> None:
        parts = take(self._store.cohorts(), min(count, messages.MAX_AGENTS_PER_QUESTION))
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
                self._registrar.refresh()  # whoever was asked is in the list then
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

        A problem is ``Forged`` if somebody else signed the poll, ``NotFound`` if the participant is not enrolled, and
        for all of them ``CannotWrite`` if the store cannot be read.
        """
        try:
            return self._poll(polls)
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in polls]

    def _poll(self, polls: Sequence[Signed]) -> list[bytes | TandemError | None]:
        found: list[bytes | TandemError | None] = []
        verified = payloads(polls, messages.Poll.KIND)
        if any(
            isinstance(said, bytes) and self._roster.position(poll.key) is None
            for poll, said in zip(polls, verified, strict=True)
        ):
            self._registrar.refresh()  # perhaps another process has enrolled them
        for signed, checked in zip(polls, verified, strict=True):
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
            if taking is None or not taking.open or taking.number(position):
                continue
            if len(taking.asked.slots(participant)):
                return self._identity.envelope(messages.Assignment.KIND, taking.asked.assignment(participant))
        return None

    def accept(self, sent: Sequence[Sent]) -> list[TandemError | None]:
        """Take reports; those that are acceptable are on disk when this returns.

        The same report again is accepted again. A problem says why one is not acceptable; its reason is counted, and
        nothing is changed by it. ``CannotWrite`` for all of them says that the store cannot be used at present.
        """
        try:
            return self._accept(sent)
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in sent]

    def _accept(self, sent: Sequence[Sent]) -> list[TandemError | None]:
        kinds = [messages.Report.KIND if report.body is None else messages.PackedReport.KIND for report in sent]
        checked: list[bytes | Forged] = [b""] * len(sent)
        for kind in set(kinds):
            places = [i for i, found in enumerate(kinds) if found == kind]
            for i, payload in zip(places, payloads([sent[i].signed for i in places], kind), strict=True):
                checked[i] = payload
        outcomes: list[TandemError | None] = [None] * len(sent)
        fresh: dict[int, Judged] = {}
        with self._lock:
            earlier: dict[tuple[str, int, str], StoredReport] = {}
            for i, (report, payload) in enumerate(zip(sent, checked, strict=True)):
                try:
                    if isinstance(payload, Forged):
                        raise payload
                    judged = self._judge(read(report.signed, payload, report.body), earlier)
                    if judged.new:
                        claim = judged.claim
                        earlier[claim.report.run, claim.report.question, claim.key] = judged.report
                        fresh[i] = judged
                except Refusal as refusal:
                    outcomes[i] = refusal.problem
                except TandemError as error:
                    outcomes[i] = error
            for i in self._keep(fresh):
                # Another process has taken a report of this participant meanwhile, or the question was closed.
                try:
                    self._judge(fresh[i].claim, earlier={})
                except Refusal as refusal:
                    outcomes[i] = refusal.problem
        self.rejected.update(problem.problem for problem in outcomes if problem is not None)
        return outcomes

    def _judge(self, claim: Claim, earlier: dict[tuple[str, int, str], StoredReport]) -> Judged:
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
        return Judged(claim, taking, accepted, accepted is not known)

    def _keep(self, fresh: dict[int, Judged]) -> list[int]:
        """Store reports; returns the places of those that were overtaken: they are not stored."""
        if not fresh:
            return []
        overtaken: list[int] = []
        kept: list[Judged] = []

        def choose(taken: Sequence[Taken], still_open: AbstractSet[int]) -> list[tuple[int, StoredReport]]:
            self._learn(taken, still_open)
            for i, judged in fresh.items():
                late = not judged.taking.open or judged.taking.reported(judged.report.slot)
                (overtaken.append(i) if late else kept.append(judged))
            return [(judged.taking.question.key, judged.report) for judged in kept]

        self._store.add_reports(self._newest, choose)
        for judged in kept:
            self._newest += 1
            judged.taking.enter(judged.report.slot, self._newest)
        with self._arrived:
            self._arrived.notify_all()
        return overtaken


class Judged(NamedTuple):
    """An acceptable report: what was claimed, on which question, as it is to be stored, and whether it is new."""

    claim: Claim
    taking: Taking
    report: StoredReport
    new: bool
