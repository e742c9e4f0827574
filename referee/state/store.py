"""The referee's durable memory: every table behind small methods, one transaction each.

What a method has returned from is on disk. Nothing here decides anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, MetaData, Row, Table, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from common.core.errors import Conflict, NotFound, Refused
from common.service.database import open_database
from common.wire.messages import MAX_AGENTS
from common.wire.transcript import Entry


@dataclass(frozen=True)
class Participant:
    """An enrolled agent or hosted population: agents ``first`` .. ``first + agents - 1`` answer under ``key``."""

    key: str
    first: int
    agents: int


@dataclass(frozen=True)
class Cohort:
    """Agents that were enrolled together when a run began; ``used`` of them, in the order of ``seed``, were asked."""

    first: int
    agents: int
    seed: str
    used: int


@dataclass(frozen=True)
class Part:
    """Positions ``start`` .. ``stop - 1`` of the order of the cohort that begins at agent ``cohort``."""

    cohort: int
    start: int
    stop: int


@dataclass(frozen=True)
class Question:
    """A question to a batch of agents."""

    run: str
    question: int
    query: dict[str, Any]
    parts: tuple[Part, ...]
    asked: int
    open: bool


@dataclass(frozen=True)
class StoredReport:
    """A report as it was accepted: the signed header (JSON) and the packed body."""

    participant: str
    report_id: str
    answered: int
    header: dict[str, Any]
    body: bytes


@dataclass(frozen=True)
class Run:
    """A run as it stands."""

    run: str
    request: str
    scenario: dict[str, Any]
    seed: int | None
    status: str
    configuration: dict[str, Any] | None
    result: dict[str, Any] | None


class Store:
    """The referee's database.

    Parameters
    ----------
    url
        SQLAlchemy URL; the schema is brought up to date.
    """

    def __init__(self, url: str) -> None:
        self._engine: Engine = open_database(url, "referee.state.migrations")
        metadata = MetaData()
        metadata.reflect(self._engine)
        self._tables: dict[str, Table] = dict(metadata.tables)

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def _table(self, name: str) -> Table:
        return self._tables[name]

    # Tokens ---------------------------------------------------------------------------------------------------------

    def allow_token(self, purpose: str, sha256: str) -> None:
        """Remember the hash of the token for a purpose (``enrolment`` or ``operator``); an earlier one is forgotten."""
        tokens = self._table("tokens")
        with self._engine.begin() as connection:
            connection.execute(delete(tokens).where(tokens.c.purpose == purpose))
            connection.execute(insert(tokens).values(purpose=purpose, sha256=sha256))

    def token_allowed(self, purpose: str, sha256: str) -> bool:
        """Tell whether a token with this hash was allowed."""
        tokens = self._table("tokens")
        with self._engine.connect() as connection:
            found = connection.execute(select(tokens).where(tokens.c.purpose == purpose, tokens.c.sha256 == sha256))
            return found.first() is not None

    # Participants ---------------------------------------------------------------------------------------------------

    def enrol(self, key: str, agents: int) -> Participant:
        """Give a participant's agents the numbers after all others; the same key again gets the numbers it has.

        Raises
        ------
        Conflict
            If the key is enrolled with another number of agents.
        Refused
            If there would be more than ``MAX_AGENTS``.
        """
        table = self._table("participants")
        while True:
            known = self.participant(key)
            if known is not None:
                if known.agents != agents:
                    raise Conflict(f"this key is enrolled with {known.agents} agents, not {agents}")
                return known
            try:
                with self._engine.begin() as connection:
                    first = int(
                        connection.execute(
                            select(func.coalesce(func.max(table.c.first + table.c.agents), 0))
                        ).scalar_one()
                    )
                    if first + agents > MAX_AGENTS:
                        raise Refused(f"a referee numbers at most {MAX_AGENTS} agents, {first} are enrolled already")
                    connection.execute(insert(table).values(key=key, first=first, agents=agents))
            except IntegrityError:
                continue  # another enrolment took the number: look again

    def participant(self, key: str) -> Participant | None:
        """Return a participant by its key."""
        table = self._table("participants")
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.key == key)).first()
        return None if row is None else Participant(row.key, int(row.first), int(row.agents))

    def participants(self) -> list[Participant]:
        """Return all, in the order of their numbers."""
        table = self._table("participants")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.first)).all()
        return [Participant(row.key, int(row.first), int(row.agents)) for row in rows]

    # Cohorts --------------------------------------------------------------------------------------------------------

    def cohorts(self) -> list[Cohort]:
        """Return all cohorts, oldest first."""
        table = self._table("cohorts")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.first)).all()
        return [Cohort(int(row.first), int(row.agents), row.seed, int(row.used)) for row in rows]

    def enrolled(self) -> int:
        """Return how many agents are enrolled."""
        table = self._table("participants")
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.coalesce(func.sum(table.c.agents), 0))).scalar_one())

    def configure(self, run: str, configuration: dict[str, Any], cohort: Cohort | None, entry: Entry) -> None:
        """Fix a run's configuration, its new cohort and its first transcript entry, all or nothing."""
        with self._engine.begin() as connection:
            if cohort is not None:
                connection.execute(
                    insert(self._table("cohorts")).values(
                        first=cohort.first, agents=cohort.agents, seed=cohort.seed, used=cohort.used
                    )
                )
            runs = self._table("runs")
            connection.execute(
                update(runs).where(runs.c.run == run).values(configuration=json.dumps(configuration), status="running")
            )
            connection.execute(self._insert_entry(run, entry, None))

    # Runs -----------------------------------------------------------------------------------------------------------

    def create_run(self, run: str, request: str, scenario: dict[str, Any], seed: int | None) -> Run:
        """Create a run; the same request again returns it as it stands.

        Raises
        ------
        Conflict
            If the name is taken by another request.
        """
        table = self._table("runs")
        new = {"run": run, "request": request, "scenario": json.dumps(scenario), "seed": seed, "status": "waiting"}
        while True:
            try:
                known = self.run(run)
            except NotFound:
                try:
                    with self._engine.begin() as connection:
                        newest = connection.execute(select(func.coalesce(func.max(table.c.position), 0))).scalar_one()
                        connection.execute(insert(table).values(**new, position=int(newest) + 1))
                except IntegrityError:
                    continue  # another request took the name or the position: look again
                return self.run(run)
            if known.request != request:
                raise Conflict(f"run {run!r} exists with another scenario or seed")
            return known

    def run(self, run: str) -> Run:
        """Return a run.

        Raises
        ------
        NotFound
            If there is none of that name.
        """
        table = self._table("runs")
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.run == run)).first()
        if row is None:
            raise NotFound(f"there is no run {run!r}")
        return _run(row)

    def unfinished(self) -> list[Run]:
        """Return runs that are waiting or running, oldest first."""
        table = self._table("runs")
        with self._engine.connect() as connection:
            query = select(table).where(table.c.status.in_(("waiting", "running"))).order_by(table.c.position)
            return [_run(row) for row in connection.execute(query).all()]

    def finish(self, run: str, status: str, result: dict[str, Any], entry: Entry | None) -> None:
        """Record a run's end, with its last transcript entry if it got so far."""
        runs, questions = self._table("runs"), self._table("questions")
        with self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.run == run).values(status=status, result=json.dumps(result)))
            connection.execute(update(questions).where(questions.c.run == run).values(open=False))
            if entry is not None:
                connection.execute(self._insert_entry(run, entry, None))

    # Questions ------------------------------------------------------------------------------------------------------

    def open_question(self, question: Question, entry: Entry) -> None:
        """Record a question, the agents it takes from their cohorts, and its transcript entry, all or nothing."""
        cohorts = self._table("cohorts")
        with self._engine.begin() as connection:
            connection.execute(
                insert(self._table("questions")).values(
                    run=question.run,
                    question=question.question,
                    query=json.dumps(question.query),
                    parts=json.dumps([[p.cohort, p.start, p.stop] for p in question.parts]),
                    asked=question.asked,
                    open=True,
                )
            )
            for part in question.parts:
                connection.execute(update(cohorts).where(cohorts.c.first == part.cohort).values(used=part.stop))
            connection.execute(self._insert_entry(question.run, entry, None))

    def question(self, run: str, number: int) -> Question | None:
        """Return a question of a run."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.run == run, table.c.question == number)).first()
        return None if row is None else _question(row)

    def questions(self, run: str) -> list[Question]:
        """Return a run's questions in order."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).where(table.c.run == run).order_by(table.c.question)).all()
        return [_question(row) for row in rows]

    def open_questions(self) -> list[Question]:
        """Return every question that still takes answers."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).where(table.c.open)).all()
        return [_question(row) for row in rows]

    def close_question(self, run: str, number: int) -> None:
        """Take no more answers."""
        table = self._table("questions")
        with self._engine.begin() as connection:
            connection.execute(update(table).where(table.c.run == run, table.c.question == number).values(open=False))

    # Reports --------------------------------------------------------------------------------------------------------

    def add_reports(self, run: str, number: int, reports: Sequence[StoredReport]) -> bool:
        """Store reports in one transaction, if the question is still open; tell whether they were stored.

        Raises
        ------
        Conflict
            If one of the participants has already reported, or a report id is taken.
        """
        questions, table = self._table("questions"), self._table("reports")
        try:
            with self._engine.begin() as connection:
                still = connection.execute(
                    update(questions)
                    .where(questions.c.run == run, questions.c.question == number, questions.c.open)
                    .values(open=True)
                )
                if still.rowcount == 0:
                    return False
                connection.execute(
                    insert(table),
                    [
                        {
                            "run": run,
                            "question": number,
                            "participant": r.participant,
                            "report_id": r.report_id,
                            "answered_count": r.answered,
                            "header": json.dumps(r.header),
                            "body": r.body,
                        }
                        for r in reports
                    ],
                )
        except IntegrityError:
            raise Conflict("an agent or a report id has already reported on this question") from None
        return True

    def report(self, run: str, number: int, participant: str) -> StoredReport | None:
        """Return what a participant reported on a question."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            row = connection.execute(
                select(table).where(table.c.run == run, table.c.question == number, table.c.participant == participant)
            ).first()
        return None if row is None else _report(row)

    def reports(self, run: str, number: int) -> list[StoredReport]:
        """Return all reports on a question, by participant key."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            rows = connection.execute(
                select(table).where(table.c.run == run, table.c.question == number).order_by(table.c.participant)
            ).all()
        return [_report(row) for row in rows]

    def reported(self, run: str, number: int) -> set[str]:
        """Return the participants that have reported on a question."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            query = select(table.c.participant).where(table.c.run == run, table.c.question == number)
            return set(connection.execute(query).scalars())

    def answered(self, run: str) -> int:
        """Return how many agents have answered in a run."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            query = select(func.coalesce(func.sum(table.c.answered_count), 0)).where(table.c.run == run)
            return int(connection.execute(query).scalar_one())

    # Transcript -----------------------------------------------------------------------------------------------------

    def add_entry(self, run: str, entry: Entry, step: int | None = None) -> None:
        """Append an entry to a run's transcript; ``step`` marks it as the reply to that step of the protocol."""
        with self._engine.begin() as connection:
            connection.execute(self._insert_entry(run, entry, step))

    def entries(self, run: str) -> list[str]:
        """Return the transcript's lines."""
        table = self._table("entries")
        with self._engine.connect() as connection:
            query = select(table.c.line).where(table.c.run == run).order_by(table.c.index)
            return list(connection.execute(query).scalars())

    def last_entry(self, run: str) -> Entry | None:
        """Return the newest entry of a run's transcript."""
        table = self._table("entries")
        with self._engine.connect() as connection:
            query = select(table.c.line).where(table.c.run == run).order_by(table.c.index.desc()).limit(1)
            line = connection.execute(query).scalar()
        return None if line is None else Entry.parse(json.loads(line))

    def reply_entry(self, run: str, step: int) -> Entry | None:
        """Return the entry that holds the reply to a step of the protocol, if it was given already."""
        table = self._table("entries")
        with self._engine.connect() as connection:
            line = connection.execute(select(table.c.line).where(table.c.run == run, table.c.step == step)).scalar()
        return None if line is None else Entry.parse(json.loads(line))

    def _insert_entry(self, run: str, entry: Entry, step: int | None) -> Any:
        return insert(self._table("entries")).values(
            run=run, index=entry.index, step=step, kind=entry.kind, line=entry.line()
        )


def _run(row: Row[Any]) -> Run:
    return Run(
        run=row.run,
        request=row.request,
        scenario=json.loads(row.scenario),
        seed=row.seed,
        status=row.status,
        configuration=None if row.configuration is None else json.loads(row.configuration),
        result=None if row.result is None else json.loads(row.result),
    )


def _question(row: Row[Any]) -> Question:
    parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in json.loads(row.parts))
    return Question(row.run, int(row.question), json.loads(row.query), parts, int(row.asked), bool(row.open))


def _report(row: Row[Any]) -> StoredReport:
    return StoredReport(row.participant, row.report_id, int(row.answered_count), json.loads(row.header), row.body)
