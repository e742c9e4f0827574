"""The open questions of a referee, and who has reported on each: a copy in memory that follows the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from common.core.errors import NotFound
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.queries.query import parse_query
from common.log.transcript import SignedEntry
from common.net import messages
from common.scenario.scenario import parse_resolved
from referee.collection.enrolment import Registrar
from referee.collection.judging import PendingQuestion, not_asked
from referee.collection.order import AnyBatch, form_batch
from referee.store import RefereeStore
from referee.tables import Cohort, ReportRef, StoredQuestion

GATHER = 0.01  # seconds for which further reports may join the first before they are counted together
REMEMBERED = 4  # closed questions, the last ones read, that stay in memory beside the open ones


class Agreed(NamedTuple):
    """The digest of a run's configuration, how its agents randomize, and in which committed orders they are asked."""

    digest: str
    mechanism: LocalRandomizer
    order: tuple[messages.OrderCommitment, ...]


class OpenQuestions:
    """What this process knows of questions and of the reports on them; ``lock`` is held for every change.

    Attributes:
        newest: Number of the newest report that is known.
        open: Run and number of each question that takes answers, oldest first.
        on_question: Called when a question was opened.
    """

    def __init__(self, store: RefereeStore, registrar: Registrar) -> None:
        self._store = store
        self._registrar = registrar
        self.lock = threading.RLock()
        self._arrived = threading.Condition()
        self._news = 0
        self._heard = threading.local()
        self._loaded: dict[tuple[str, int], OpenQuestion] = {}
        self._runs: dict[str, Agreed] = {}
        self.newest = store.last_report()
        self.open = list(store.open_questions().values())
        self.on_question: Callable[[], object] = lambda: None

    def find(self, run: str, number: int) -> OpenQuestion | None:
        """Return a question of a run, and who has reported on it; one thread at a time reads it from the store."""
        key = (run, number)
        open_question = self._loaded.get(key)
        if open_question is not None:
            return open_question
        with self.lock:
            open_question = self._loaded.get(key)
            if open_question is None and (question := self._store.question(run, number)) is not None:
                cohorts = {cohort.first: cohort for cohort in self._store.cohorts()}
                open_question = self._enter(question, cohorts, self._store.slots(question))
            return open_question

    def _enter(
        self, question: StoredQuestion, cohorts: Mapping[int, Cohort], reports: Iterable[tuple[int, int]]
    ) -> OpenQuestion:
        if any(cohort.first + cohort.agents > self._registrar.roster.agents for cohort in cohorts.values()):
            self._registrar.refresh()  # afterwards the roster has every participant that was asked
        asked = self._asked(question, cohorts)
        open_question = self._loaded[question.run, question.question] = OpenQuestion(question, asked, reports)
        for old in [k for k, t in self._loaded.items() if not t.open][: -REMEMBERED or None]:
            del self._loaded[old]
        return open_question

    def known(self, run: str, number: int, key: str | None = None) -> OpenQuestion:
        """Return a question like :meth:`find`; NotFound if there is none, PatternViolation if ``key`` is not enrolled.

        Anybody can make keys, so only an enrolled one may cause a closed question and all its reports to be reread.
        """
        if key is not None and (run, number) not in self._loaded and not self._registrar.knows(key):
            raise not_asked(number)
        open_question = self.find(run, number)
        if open_question is None:
            raise NotFound(f"run {run!r} has no question {number}")
        return open_question

    def _asked(self, question: StoredQuestion, cohorts: Mapping[int, Cohort]) -> PendingQuestion:
        def form() -> AnyBatch:
            return form_batch(question.parts, cohorts.__getitem__, self._registrar.roster)

        digest, mechanism, _ = self.agreed(question.run)
        query = parse_query(question.query)
        return PendingQuestion(
            question.run, digest, question.question, query, mechanism.answer_kind(query.domain), form
        )

    def agreed(self, run: str) -> Agreed:
        """Return what a run's configuration has fixed for its agents; read from the store if it is not in memory."""
        if run not in self._runs:
            wire = self._store.run(run).configuration
            if wire is None:
                raise NotFound(f"run {run!r} has not begun")
            configuration = messages.Configuration.parse(wire)
            mechanism = parse_resolved(configuration.scenario).agents.mechanism
            self._runs[run] = Agreed(configuration.fingerprint(), mechanism, configuration.order)
        return self._runs[run]

    def refresh(self) -> None:
        """Read what other processes have stored: questions opened or closed, and reports."""
        with self.lock:
            questions = self._store.open_questions()
            self.learn(self._store.reports_after(self.newest), questions.keys())
            fresh = [place for place in questions.values() if place not in self.open]
            for run, number in fresh:
                self.find(run, number)  # load it before an agent polls for it
            self.open = list(questions.values())
        if fresh:
            self.on_question()

    def learn(self, reports: Sequence[ReportRef], still_open: AbstractSet[int]) -> None:
        """Update which reports others have stored, and which questions are still open."""
        open_questions = {open_question.question.key: open_question for open_question in self._loaded.values()}
        for report in reports:
            self.newest = report.number
            if report.question in open_questions:
                open_questions[report.question].enter(report.slot, report.number)
        for key, open_question in open_questions.items():
            open_question.open = open_question.open and key in still_open
        if reports:
            self.announce()

    def open_new(self, question: StoredQuestion, entry: SignedEntry, cohorts: Mapping[int, Cohort]) -> None:
        """Store a question with its transcript entry, and offer it to its agents, if it has any.

        ``cohorts`` maps the first agent of each of its cohorts to the cohort.
        """
        with self.lock:  # no thread reads reports of other processes on it meanwhile
            key = self._store.open_question(question, entry)
            if not question.asked:
                return
            self._enter(replace(question, key=key), cohorts, ())
            self.open = [*self.open, (question.run, question.question)]
        self.on_question()

    def closed(self, open_question: OpenQuestion) -> None:
        key = (open_question.question.run, open_question.question.question)
        self._loaded.get(key, open_question).open = open_question.open = False
        self.open = [other for other in self.open if other != key]

    def stored(self, open_question: OpenQuestion, slot: int) -> None:
        self.newest += 1
        open_question.enter(slot, self.newest)

    def announce(self) -> None:
        with self._arrived:
            self._news += 1
            self._arrived.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until reports arrive that this thread has not yet seen; at most ``seconds``, and at most one second."""
        news = getattr(self._heard, "news", 0)
        with self._arrived:
            # If reports came since the caller's last check, do not sleep.
            if self._arrived.wait_for(lambda: self._news != news, min(seconds, 1.0)):
                # Individuals report one by one: gather several, rather than have the caller check after each one. Once
                # a question is complete, return at once.
                self._arrived.wait_for(self._complete, GATHER)
            self._heard.news = self._news

    def _complete(self) -> bool:
        return any(
            open_question is not None and open_question.complete for open_question in map(self._loaded.get, self.open)
        )


class OpenQuestion:
    """Who has reported on one question; takes eight bytes for each participant in the roster.

    ``reports`` are the slot, and the number in the store, of each report taken before. ``heard`` counts the agents for
    which a participant has reported or declined. ``declined`` maps the place in the roster of a participant that
    declined to its reason and its number of agents.
    """

    def __init__(self, question: StoredQuestion, asked: PendingQuestion, reports: Iterable[tuple[int, int]]) -> None:
        self.question = question
        self.asked = asked
        self.open = question.open
        self.heard = 0
        self.declined: dict[int, tuple[str, int]] = {}
        asked.batch.sort()
        self._numbers = np.zeros(len(asked.batch.roster), dtype=np.int64)
        for slot, number in reports:
            self.enter(slot, number)

    @property
    def complete(self) -> bool:
        return self.heard >= self.question.asked

    def enter(self, slot: int, number: int) -> None:
        """Record the report of the participant that owns a slot, by its number in the store; only the first counts."""
        batch = self.asked.batch
        position = batch.position(slot)
        if not self._numbers[position]:
            self._numbers[position] = number
            if self.declined.pop(position, None) is None:
                self.heard += len(batch.slots_from(slot))

    def decline(self, position: int, reason: str, agents: int) -> None:
        """Record that a participant declines for its agents; has no effect after a report of it."""
        if not self.number(position) and position not in self.declined:
            self.declined[position] = reason, agents
            self.heard += agents

    def reported(self, slot: int) -> bool:
        return bool(self._numbers[self.asked.batch.position(slot)])

    def number(self, position: int) -> int:
        """Return the number of a participant's report, given its place in the roster; 0 if there is none."""
        return int(self._numbers[position]) if position < len(self._numbers) else 0

    def number_of(self, key: str) -> int:
        return next(filter(None, map(self.number, self.asked.batch.roster.places(key))), 0)
