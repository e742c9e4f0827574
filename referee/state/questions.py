"""Questions to agents, and their reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from common.core.errors import Conflict
from common.wire.transcript import Entry
from referee.state.tables import Tables
from referee.state.values import Part, Question, StoredReport


class QuestionQueries(Tables):
    """Questions and reports."""

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

    def open_questions(self) -> list[tuple[str, int]]:
        """Return run and number of every question that still takes answers."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table.c.run, table.c.question).where(table.c.open)).all()
        return [(row.run, int(row.question)) for row in rows]

    def is_open(self, run: str, number: int) -> bool:
        """Tell whether a question still takes answers."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            query = select(table.c.open).where(table.c.run == run, table.c.question == number)
            return bool(connection.execute(query).scalar())

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


def _question(row: Row[Any]) -> Question:
    parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in json.loads(row.parts))
    return Question(row.run, int(row.question), json.loads(row.query), parts, int(row.asked), bool(row.open))


def _report(row: Row[Any]) -> StoredReport:
    return StoredReport(row.participant, row.report_id, int(row.answered_count), json.loads(row.header), row.body)
