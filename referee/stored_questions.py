"""Questions to agents, and their reports, in the referee's database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from common.log.transcript import SignedEntry
from referee.tables import (
    COHORTS,
    QUESTIONS,
    REJECTIONS,
    REPORTING,
    REPORTS,
    Part,
    StoredQuestion,
    StoredReport,
    Tables,
    Taken,
)

_FIELDS = ("slot", "individual", "report_id", "answered", "signature", "body", "message")
"""Of a stored report, in its own order."""
_REPORT = select(*(REPORTS.c[name] for name in _FIELDS))


class QuestionQueries(Tables):
    """Questions and reports."""

    def open_question(self, question: StoredQuestion, entry: SignedEntry) -> None:
        """Record a question, the agents it takes from their cohorts, and its transcript entry, all or nothing."""
        with self._driving() as connection:
            connection.execute(
                insert(QUESTIONS).values(
                    run=question.run,
                    question=question.question,
                    query=json.dumps(question.query),
                    parts=json.dumps([[p.cohort, p.start, p.stop] for p in question.parts]),
                    asked=question.asked,
                    open=question.open,
                    answered=0,
                )
            )
            for part in question.parts:
                next_ones = (COHORTS.c.first == part.cohort) & (COHORTS.c.used == part.start)
                if connection.execute(update(COHORTS).where(next_ones).values(used=part.stop)).rowcount != 1:
                    raise AssertionError("agents are taken that another question has, or not the next ones")
            fence = self._insert_entry(connection, question.run, entry, None)
        self._appended(question.run, entry, fence)

    def question(self, run: str, number: int) -> StoredQuestion | None:
        found = self._all(select(QUESTIONS).where(QUESTIONS.c.run == run, QUESTIONS.c.question == number))
        return _question(found[0]) if found else None

    def questions(self, run: str) -> list[StoredQuestion]:
        rows = self._all(select(QUESTIONS).where(QUESTIONS.c.run == run).order_by(QUESTIONS.c.question))
        return list(map(_question, rows))

    def questions_after(self, key: int) -> list[StoredQuestion]:
        """Return the questions of all runs that were opened after the one with a key, in order."""
        return list(map(_question, self._all(select(QUESTIONS).where(QUESTIONS.c.key > key).order_by(QUESTIONS.c.key))))

    def last_question(self, run: str) -> int:
        return int(self._value(select(func.max(QUESTIONS.c.key)).where(QUESTIONS.c.run == run)) or 0)

    def asked(self, run: str) -> int:
        return int(self._value(select(func.sum(QUESTIONS.c.asked)).where(QUESTIONS.c.run == run)) or 0)

    def answered(self, run: str) -> int:
        return int(self._value(select(func.sum(QUESTIONS.c.answered)).where(QUESTIONS.c.run == run)) or 0)

    def open_questions(self) -> dict[int, tuple[str, int]]:
        """Return run and number of every question that takes answers, by their keys, oldest first."""
        with self._engine.connect() as connection:
            return self._open_questions(connection)

    def _open_questions(self, connection: Connection) -> dict[int, tuple[str, int]]:
        columns = QUESTIONS.c
        query = select(columns.key, columns.run, columns.question).where(columns.open).order_by(columns.key)
        return {int(key): (run, int(number)) for key, run, number in connection.execute(query)}

    def close_question(self, question: StoredQuestion) -> None:
        """Take no more answers, in no process, and remember how many agents have answered."""
        with self._driving(REPORTING) as connection:
            total = select(func.coalesce(func.sum(REPORTS.c.answered), 0)).where(REPORTS.c.question == question.key)
            still_open = update(QUESTIONS).where(QUESTIONS.c.key == question.key, QUESTIONS.c.open)
            connection.execute(still_open.values(open=False, answered=total.scalar_subquery()))

    def taken(self, newest: int) -> list[Taken]:
        """Return which reports were stored after number ``newest``, oldest first."""
        with self._engine.connect() as connection:
            return self._taken(connection, newest)

    def _taken(self, connection: Connection, newest: int) -> list[Taken]:
        columns = REPORTS.c
        query = select(columns.number, columns.question, columns.slot).where(columns.number > newest)
        return [Taken(*row) for row in connection.execute(query.order_by(columns.number))]

    def last_report(self) -> int:
        return int(self._value(select(func.max(REPORTS.c.number))) or 0)

    def add_reports(
        self,
        newest: int,
        choose: Callable[[Sequence[Taken], AbstractSet[int]], Sequence[tuple[int, StoredReport]]],
    ) -> None:
        """Store reports, in one transaction that no other process has at the same time, numbered without gaps.

        Args:
            newest: The number of the last report that the caller knows.
            choose: Called with those that were stored since, and with the keys of the questions that take answers;
                returns the reports to be stored after them, each with the key of its question. Whoever has not seen all
                others cannot store any: the number would be taken.
        """
        with self._alone(REPORTING) as connection:
            taken = self._taken(connection, newest)
            chosen = choose(taken, self._open_questions(connection).keys())
            first = (taken[-1].number if taken else newest) + 1
            rows = [
                (number, question, r.slot, r.individual, r.report_id, r.answered, r.signature, r.body, r.message)
                for number, (question, r) in enumerate(chosen, start=first)
            ]
            self._insert_all(connection, REPORTS, ("number", "question", *_FIELDS), rows)

    def report(self, number: int) -> StoredReport:
        return StoredReport(*self._all(_REPORT.where(REPORTS.c.number == number))[0])

    def reports(self, question: StoredQuestion) -> Iterator[StoredReport]:
        rows = self._each(_REPORT.where(REPORTS.c.question == question.key).order_by(REPORTS.c.slot))
        return (StoredReport(*row) for row in rows)

    def count_reports(self, question: StoredQuestion) -> int:
        return int(self._value(select(func.count()).where(REPORTS.c.question == question.key)))

    def slots(self, question: StoredQuestion) -> Iterator[tuple[int, int]]:
        rows = self._each(select(REPORTS.c.slot, REPORTS.c.number).where(REPORTS.c.question == question.key))
        return ((slot, number) for slot, number in rows)

    def keep_rejected(self, process: str, counts: Mapping[str, int]) -> None:
        """Remember how many reports a process has refused, by reason, in the place of what it said before."""
        rows = [{"process": process, "reason": reason, "count": count} for reason, count in counts.items()]
        with self._engine.begin() as connection:
            connection.execute(delete(REJECTIONS).where(REJECTIONS.c.process == process))
            if rows:
                connection.execute(insert(REJECTIONS), rows)

    def rejected(self, process: str | None = None) -> Counter[str]:
        """Return how many reports a process, or all of them, have refused, by reason."""
        query = select(REJECTIONS.c.reason, REJECTIONS.c["count"])
        found: Counter[str] = Counter()
        for reason, count in self._all(query if process is None else query.where(REJECTIONS.c.process == process)):
            found[reason] += int(count)
        return found


def _question(row: Row[Any]) -> StoredQuestion:
    parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in json.loads(row.parts))
    return StoredQuestion(
        row.run, int(row.question), json.loads(row.query), parts, int(row.asked), bool(row.open), int(row.key)
    )
