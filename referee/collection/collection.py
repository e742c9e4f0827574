"""Send questions and collect answers: each agent gets at most one question at a time, and answers it at most once.

Any number of processes can take reports into one database (docs/architecture.md, "Several processes of one referee").
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from common.core.errors import (
    BadScenario,
    CannotWrite,
    ConfigurationMismatch,
    Forged,
    NotFound,
    PeerUnavailable,
    TandemError,
)
from common.crypto.identity import Identity
from common.local.packing import packed_bytes
from common.local.queries.query import Answers, AskAgents
from common.log.transcript import append
from common.net import messages
from common.net.messages import AnySigned, field, parse_payload
from referee.collection.aggregation import add_up
from referee.collection.enrolment import Registrar
from referee.collection.judging import (
    Claim,
    asked_slots,
    check_asked,
    check_configuration,
    closed,
    judge,
    verified_payload,
)
from referee.collection.order import passed_over, take
from referee.collection.questions import OpenQuestion, OpenQuestions
from referee.collection.roster import longest_pause
from referee.store import RefereeStore
from referee.tables import StoredQuestion, StoredReport, Taken

Outcome = TypeVar("Outcome")

REPORTS = 1000
"""Participants for which a question's deadline is one second later: so many individuals can report per second."""
HOSTED = 1_000_000
"""Agents for which a question's deadline is one second later: so many people of hosts can answer per second."""
PATIENCE = 10  # how many deadlines to wait for the first report of a question before the run fails
_LATER = "nothing can be stored at present, and nothing was acknowledged: say it again"


class ReportCollection:
    """The agents' side of the referee: ``clock`` closes its questions, ``process`` names it among its processes."""

    def __init__(
        self,
        store: RefereeStore,
        identity: Identity,
        registrar: Registrar,
        clock: Callable[[], float] = time.monotonic,
        process: str = "",
    ) -> None:
        self._store = store
        self._identity = identity
        self._registrar = registrar
        self._roster = registrar.roster
        self.questions = OpenQuestions(store, registrar)
        self.clock = clock
        self._process = process
        self.rejected = store.rejected(process)
        self._noted = self.rejected.total()
        self.accepted = 0
        self._declined: dict[str, Counter[str]] = {}

    def ask(
        self, run: str, number: int, step: AskAgents, deadline: float, wait: Callable[[float], None]
    ) -> tuple[Answers, str]:
        """Ask agents and collect their answers until all are in or the deadline has passed.

        Returns the answers and the Merkle root over all reports. A question that is already open, because the referee
        was restarted, is continued. ``wait`` is called with the seconds left; it returns when something may have
        arrived. PolicyRefused if the run's mechanism cannot randomize what the query asks for: no agent is asked then.
        PeerUnavailable if no agent reports or declines within ``PATIENCE`` deadlines.
        """
        self.questions.agreed(run).mechanism.answer_kind(step.query.domain)  # refuses before any agent is asked
        if self._store.question(run, number) is None:
            self._ask(run, number, step)
        taking = self.questions.known(run, number)
        began = self.clock()
        deadline += taking.asked.batch.participants // REPORTS + taking.question.asked // HOSTED
        deadline += longest_pause(len(self._roster))
        while taking.open and not taking.complete:
            left = deadline * (1 if taking.heard else PATIENCE) - (self.clock() - began)
            if left <= 0:
                self.refresh()  # read the reports that other processes have acknowledged
                if not taking.heard:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
        self._close(taking)
        return add_up(taking.asked, self._store.reports(taking.question))

    def close(self, run: str) -> None:
        for question in self._store.questions(run):
            taking = self.questions.find(run, question.question) if question.open else None
            if taking is not None:
                self._close(taking)

    def refresh(self) -> None:
        """Read what other processes have stored, and store the counts of reports that this one has refused."""
        self._note_rejected()
        self.questions.refresh()

    def count_rejected(self) -> int:
        """Return how many reports all processes have refused, by the counts that they have stored."""
        self._note_rejected()
        return self._store.rejected().total()

    def _note_rejected(self) -> None:
        counts = self.rejected.copy()
        if counts.total() != self._noted:
            self._store.keep_rejected(self._process, counts)
            self._noted = counts.total()

    def _close(self, taking: OpenQuestion) -> None:
        with self.questions.lock:
            was_open = taking.open
            self._store.close_question(taking.question)
            self.questions.closed(taking)
            if was_open:
                # Counted only now: an agent that declined may still answer while the question is open.
                for reason, agents in taking.declined.values():
                    self._declined.setdefault(taking.question.run, Counter())[reason] += agents

    def _ask(self, run: str, number: int, step: AskAgents) -> None:
        query, count = step.query, step.count
        if count > messages.most_agents(alike=query.alike):
            raise BadScenario(messages.too_many(count, alike=query.alike))
        order = {promised.first: promised.used for promised in self.questions.agreed(run).order}
        cohorts = {cohort.first: cohort for cohort in self._store.cohorts() if cohort.first in order}
        first = None if step.again is None else self._store.question(run, step.again)
        parts = take(cohorts.values(), count) if first is None else first.parts
        between = passed_over(run, order, self._store.questions_since(run))
        asked = sum(p.stop - p.start for p in parts)
        question = StoredQuestion(run, number, query.wire(), parts, asked, asked > 0, again=step.again)
        body = {"question": number, "query": query.wire(), "parts": [[p.cohort, p.start, p.stop] for p in parts]}
        if step.again is not None:
            body["again"] = step.again
        if between:
            body["others"] = between
        entry = append(self._store.last_entry(run), "question", body, self._identity)
        self.questions.open_new(question, entry, cohorts)

    def poll(self, polls: Sequence[AnySigned]) -> list[bytes | TandemError | None]:
        """Return for each participant the open question that it has not answered yet, signed, in JSON, if there is one.

        Its problem instead: ``Forged`` if another key signed the poll, ``NotFound`` if the participant is not enrolled,
        and ``CannotWrite``, for all of them, if the store cannot be read.
        """
        verified = _outcomes(polls, messages.Poll.KIND, _polling)
        try:
            # The store is read only for a verified signature: unsigned requests cost no more than a verification.
            if any(isinstance(key, str) and self._roster.position(key) is None for key in verified):
                self._registrar.refresh()  # another process may have enrolled them
            return [self._answered(key) if isinstance(key, str) else key for key in verified]
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in polls]

    def _answered(self, participant: str) -> bytes | TandemError | None:
        try:
            asked = self.assignment(participant)
        except TandemError as error:
            return error
        return None if asked is None else self._identity.envelope(*asked)

    def assignment(self, participant: str) -> tuple[str, bytes] | None:
        """Return the open question that a participant has not answered yet, if there is one.

        The result is the kind of the message, and the message in canonical JSON, not signed yet.
        """
        places = tuple(self._roster.places(participant))
        if not places:
            raise NotFound("this participant is not enrolled here")
        for run, number in self.questions.open:
            taking = self.questions.find(run, number)
            if taking is None or not taking.open or any(taking.number(p) or p in taking.declined for p in places):
                continue
            slots = taking.asked.slots(participant)
            if len(slots):
                asked = taking.asked
                return asked.assignment_kind(participant), asked.assignment(participant, slots)
        return None

    def declined(self, run: str) -> dict[str, int]:
        """Return how many agents declined and did not answer later, by reason.

        Counts the closed questions of a run, and the declines that this process has received.
        """
        return dict(sorted(self._declined.get(run, Counter()).items()))

    def answer_summary(self, run: str) -> tuple[int, int, int] | None:
        """Return a run's open question, how many agents reported or declined, how many were asked; None if none is."""
        for name, number in self.questions.open:
            taking = self.questions.find(name, number) if name == run else None
            if taking is not None:
                return number, taking.heard, taking.question.asked
        return None

    def decline(self, declines: Sequence[AnySigned]) -> list[TandemError | None]:
        """Record which participants decline a question, and why: it is not sent to them again, nor waited for.

        A problem says why a decline is not acceptable; a repeated one changes nothing. Other processes do not know of
        it: they send the question to the participant again, or wait for it until the deadline.
        """
        with self.questions.lock:
            found = _outcomes(declines, messages.Decline.KIND, self._decline)
        self.questions.announce()
        return found

    def _decline(self, signed: AnySigned) -> None:
        key, parsed = signed.key, messages.Decline.parse(signed.message)
        taking = self.questions.known(parsed.run, parsed.question, key)
        slots = asked_slots(key, taking.asked)
        position = taking.asked.batch.position(int(slots[0]))
        if (parsed.digest, parsed.assignment) != (taking.asked.digest, taking.asked.fingerprint(key)):
            raise ConfigurationMismatch(f"this declines another assignment than that of question {parsed.question}")
        if not taking.open:
            raise closed(parsed.question)
        taking.decline(position, parsed.reason, len(slots))

    def room(self, headers: Sequence[AnySigned]) -> list[int | TandemError]:
        """Return for the header of each hosted population's report how many bytes of answers may follow it.

        A problem says why none may follow: those of :meth:`accept` that can be found without the answers.
        """
        found = _outcomes(headers, messages.PackedReport.KIND, self._room)
        self.rejected.update(problem.problem for problem in found if isinstance(problem, TandemError))
        return found

    def _room(self, signed: AnySigned) -> int:
        report = messages.PackedReport.parse(signed.message)
        check_configuration(report, self.questions.agreed(report.run).digest)
        asked = self.questions.known(report.run, report.question, signed.key).asked
        check_asked(report, signed.key, asked)
        return packed_bytes(report.people, asked.kind)

    def accept(self, claims: Sequence[Claim | TandemError]) -> list[TandemError | None]:
        """Take reports; the acceptable ones are on disk when this returns.

        The same report again is accepted again. A problem says why a report is not acceptable; the reason is counted,
        and nothing else changes. ``CannotWrite``, for all of them, if the store cannot be used at present.
        """
        try:
            outcomes = self._accept(claims)
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in claims]
        self.rejected.update(problem.problem for problem in outcomes if problem is not None)
        return outcomes

    def _accept(self, claims: Sequence[Claim | TandemError]) -> list[TandemError | None]:
        outcomes: list[TandemError | None] = []
        fresh: dict[int, AcceptableReport] = {}
        with self.questions.lock:
            earlier: dict[tuple[str, int, str], StoredReport] = {}
            for i, claim in enumerate(claims):
                judged = self._judge(claim, earlier)
                if isinstance(judged, AcceptableReport) and judged.new:
                    earlier[judged.claim.report.run, judged.claim.report.question, judged.claim.key] = judged.report
                    fresh[i] = judged
                outcomes.append(judged if isinstance(judged, TandemError) else None)
            for i in self._keep(fresh):
                # Meanwhile another process has taken a report of this participant, or the question was closed.
                again = self._judge(fresh[i].claim, {})
                outcomes[i] = again if isinstance(again, TandemError) else None
        return outcomes

    def _judge(
        self, claim: Claim | TandemError, earlier: dict[tuple[str, int, str], StoredReport]
    ) -> AcceptableReport | TandemError:
        if isinstance(claim, TandemError):
            return claim
        run, number = claim.report.run, claim.report.question
        try:
            check_configuration(claim.report, self.questions.agreed(run).digest)
            taking = self.questions.known(run, number, claim.key)
            known = earlier.get((run, number, claim.key))
            stored = taking.number_of(claim.key)
            if known is None and stored:
                known = self._store.report(stored)
            accepted = judge(claim, taking.asked, known, taking.open)
        except TandemError as error:
            return error
        return AcceptableReport(claim, taking, accepted, accepted is not known)

    def _keep(self, fresh: dict[int, AcceptableReport]) -> list[int]:
        """Store reports; return the places of those that came too late: one is stored, or the question is closed."""
        if not fresh:
            return []
        overtaken: list[int] = []
        kept: list[AcceptableReport] = []

        def choose(taken: Sequence[Taken], still_open: AbstractSet[int]) -> list[tuple[int, StoredReport]]:
            self.questions.learn(taken, still_open)
            for i, judged in fresh.items():
                late = not judged.taking.open or judged.taking.reported(judged.report.slot)
                (overtaken.append(i) if late else kept.append(judged))
            return [(judged.taking.question.key, judged.report) for judged in kept]

        self._store.add_reports(self.questions.newest, choose)
        self.accepted += len(kept)
        for judged in kept:
            self.questions.stored(judged.taking, judged.report.slot)
        self.questions.announce()
        return overtaken


class AcceptableReport(NamedTuple):
    """A judged report: the claim, its question, the report as it is stored, and whether it is new."""

    claim: Claim
    taking: OpenQuestion
    report: StoredReport
    new: bool


def _polling(signed: AnySigned) -> str:
    if str(field(signed, "participant")) != signed.key:
        raise Forged("somebody else signed this poll than the participant that it names")
    return parse_payload(signed, messages.Poll).participant


def _outcomes(
    sent: Sequence[AnySigned], kind: str, judge: Callable[[AnySigned], Outcome]
) -> list[Outcome | TandemError]:
    """Judge each message separately; the result of one that is forged, refused or not judged is its problem."""
    found: list[Outcome | TandemError] = []
    for signed in sent:
        try:
            verified_payload(signed, kind)
            found.append(judge(signed))
        except TandemError as error:
            found.append(error)
        except (SQLAlchemyError, OSError):
            found.append(CannotWrite(_LATER))
    return found
