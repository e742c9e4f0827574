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
from referee.tables import ReportRef, StoredQuestion, StoredReport

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
        open_question = self.questions.known(run, number)
        began = self.clock()
        deadline += open_question.asked.batch.participants // REPORTS + open_question.question.asked // HOSTED
        deadline += longest_pause(len(self._roster))
        while open_question.open and not open_question.complete:
            left = deadline * (1 if open_question.heard else PATIENCE) - (self.clock() - began)
            if left <= 0:
                self.refresh()  # read the reports that other processes have acknowledged
                if not open_question.heard:
                    raise PeerUnavailable(f"no agent answered question {number} within {deadline * PATIENCE:g} s")
                break
            wait(left)
        self._close(open_question)
        return add_up(open_question.asked, self._store.reports(open_question.question))

    def close(self, run: str) -> None:
        for question in self._store.questions(run):
            open_question = self.questions.find(run, question.question) if question.open else None
            if open_question is not None:
                self._close(open_question)

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

    def _close(self, open_question: OpenQuestion) -> None:
        with self.questions.lock:
            was_open = open_question.open
            self._store.close_question(open_question.question)
            self.questions.closed(open_question)
            if was_open:
                # Counted only now: an agent that declined may still answer while the question is open.
                for reason, agents in open_question.declined.values():
                    self._declined.setdefault(open_question.question.run, Counter())[reason] += agents

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
            return [self._poll_reply(key) if isinstance(key, str) else key for key in verified]
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in polls]

    def _poll_reply(self, participant: str) -> bytes | TandemError | None:
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
            open_question = self.questions.find(run, number)
            if (
                open_question is None
                or not open_question.open
                or any(open_question.number(p) or p in open_question.declined for p in places)
            ):
                continue
            slots = open_question.asked.slots(participant)
            if len(slots):
                asked = open_question.asked
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
            open_question = self.questions.find(name, number) if name == run else None
            if open_question is not None:
                return number, open_question.heard, open_question.question.asked
        return None

    def decline(self, declines: Sequence[AnySigned]) -> list[TandemError | None]:
        """Record which participants decline a question, and why: it is not sent to them again, nor waited for.

        A problem says why a decline is not acceptable; a repeated one changes nothing. Other processes do not know of
        it: they send the question to the participant again, or wait for it until the deadline.
        """
        with self.questions.lock:
            outcomes = _outcomes(declines, messages.Decline.KIND, self._decline)
        self.questions.announce()
        return outcomes

    def _decline(self, signed: AnySigned) -> None:
        key, parsed = signed.key, messages.Decline.parse(signed.message)
        open_question = self.questions.known(parsed.run, parsed.question, key)
        slots = asked_slots(key, open_question.asked)
        position = open_question.asked.batch.position(int(slots[0]))
        if (parsed.digest, parsed.assignment) != (open_question.asked.digest, open_question.asked.fingerprint(key)):
            raise ConfigurationMismatch(f"this declines another assignment than that of question {parsed.question}")
        if not open_question.open:
            raise closed(parsed.question)
        open_question.decline(position, parsed.reason, len(slots))

    def room(self, headers: Sequence[AnySigned]) -> list[int | TandemError]:
        """Return for the header of each hosted population's report how many bytes of answers may follow it.

        A problem says why none may follow: those of :meth:`accept` that can be found without the answers.
        """
        sizes = _outcomes(headers, messages.PackedReport.KIND, self._room)
        self.rejected.update(problem.problem for problem in sizes if isinstance(problem, TandemError))
        return sizes

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
                outcome = self._judge(claim, earlier)
                if isinstance(outcome, AcceptableReport) and outcome.new:
                    earlier[outcome.claim.report.run, outcome.claim.report.question, outcome.claim.key] = outcome.report
                    fresh[i] = outcome
                outcomes.append(outcome if isinstance(outcome, TandemError) else None)
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
            open_question = self.questions.known(run, number, claim.key)
            previous = earlier.get((run, number, claim.key))
            stored = open_question.number_of(claim.key)
            if previous is None and stored:
                previous = self._store.report(stored)
            accepted = judge(claim, open_question.asked, previous, open_question.open)
        except TandemError as error:
            return error
        return AcceptableReport(claim, open_question, accepted, accepted is not previous)

    def _keep(self, fresh: dict[int, AcceptableReport]) -> list[int]:
        """Store reports; return the places of those that came too late: one is stored, or the question is closed."""
        if not fresh:
            return []
        overtaken: list[int] = []
        accepted: list[AcceptableReport] = []

        def choose(reports: Sequence[ReportRef], still_open: AbstractSet[int]) -> list[tuple[int, StoredReport]]:
            self.questions.learn(reports, still_open)
            for i, acceptable in fresh.items():
                late = not acceptable.open_question.open or acceptable.open_question.reported(acceptable.report.slot)
                (overtaken.append(i) if late else accepted.append(acceptable))
            return [(acceptable.open_question.question.key, acceptable.report) for acceptable in accepted]

        self._store.add_reports(self.questions.newest, choose)
        self.accepted += len(accepted)
        for acceptable in accepted:
            self.questions.stored(acceptable.open_question, acceptable.report.slot)
        self.questions.announce()
        return overtaken


class AcceptableReport(NamedTuple):
    """A judged report: the claim, its question, the report as it is stored, and whether it is new."""

    claim: Claim
    open_question: OpenQuestion
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
    outcomes: list[Outcome | TandemError] = []
    for signed in sent:
        try:
            verified_payload(signed, kind)
            outcomes.append(judge(signed))
        except TandemError as error:
            outcomes.append(error)
        except (SQLAlchemyError, OSError):
            outcomes.append(CannotWrite(_LATER))
    return outcomes
