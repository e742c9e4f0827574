"""Questions to agents, and their reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from common.log.transcript import SignedEntry
from referee.tables import REPORTING, Part, StoredQuestion, StoredReport, Tables, Taken

_FIELDS = ("slot", "individual", "report_id", "answered", "signature", "body", "message")
"""Of a stored report, in its own order."""
_ROWS = 10_000
"""Rows that are read at a time."""


class QuestionQueries(Tables):
    """Questions and reports."""

    # Questions ------------------------------------------------------------------------------------------------------

    def open_question(self, question: StoredQuestion, entry: SignedEntry) -> None:
        """Record a question, the agents it takes from their cohorts, and its transcript entry, all or nothing."""
        cohorts = self._table("cohorts")
        with self._driving() as connection:
            connection.execute(
                insert(self._table("questions")).values(
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
                next_ones = (cohorts.c.first == part.cohort) & (cohorts.c.used == part.start)
                if connection.execute(update(cohorts).where(next_ones).values(used=part.stop)).rowcount != 1:
                    raise AssertionError("agents are taken that another question has, or not the next ones")
            fence = self._insert_entry(connection, question.run, entry, None)
        self._appended(question.run, entry, fence)

    def question(self, run: str, number: int) -> StoredQuestion | None:
        """Return a question of a run."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.run == run, table.c.question == number)).first()
        return None if row is None else _question(row)

    def questions(self, run: str) -> list[StoredQuestion]:
        """Return a run's questions in order."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).where(table.c.run == run).order_by(table.c.question)).all()
        return [_question(row) for row in rows]

    def last_question(self, run: str) -> int:
        """Return the key of a run's newest question, 0 if it has none."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            query = select(func.coalesce(func.max(table.c.key), 0)).where(table.c.run == run)
            return int(connection.execute(query).scalar_one())

    def asked(self, run: str) -> int:
        """Return how many agents a run has asked."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            query = select(func.coalesce(func.sum(table.c.asked), 0)).where(table.c.run == run)
            return int(connection.execute(query).scalar_one())

    def questions_after(self, key: int) -> list[StoredQuestion]:
        """Return the questions of all runs that were opened after the one with a key, in order."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).where(table.c.key > key).order_by(table.c.key)).all()
        return [_question(row) for row in rows]

    def open_questions(self) -> dict[int, tuple[str, int]]:
        """Return run and number of every question that takes answers, by their keys, oldest first."""
        with self._engine.connect() as connection:
            return self._open_questions(connection)

    def _open_questions(self, connection: Connection) -> dict[int, tuple[str, int]]:
        table = self._table("questions")
        query = select(table.c.key, table.c.run, table.c.question).where(table.c.open).order_by(table.c.key)
        return {int(key): (run, int(number)) for key, run, number in connection.execute(query)}

    def close_question(self, question: StoredQuestion) -> None:
        """Take no more answers, in no process, and remember how many agents have answered."""
        table, reports = self._table("questions"), self._table("reports")
        with self._driving(REPORTING) as connection:
            total = select(func.coalesce(func.sum(reports.c.answered), 0)).where(reports.c.question == question.key)
            connection.execute(
                update(table)
                .where(table.c.key == question.key, table.c.open)
                .values(open=False, answered=total.scalar_subquery())
            )

    # Reports --------------------------------------------------------------------------------------------------------

    def taken(self, newest: int) -> list[Taken]:
        """Return which reports were stored after number ``newest``, oldest first."""
        with self._engine.connect() as connection:
            return self._taken(connection, newest)

    def _taken(self, connection: Connection, newest: int) -> list[Taken]:
        table = self._table("reports")
        query = select(table.c.number, table.c.question, table.c.slot).where(table.c.number > newest)
        return [Taken(*row) for row in connection.execute(query.order_by(table.c.number))]

    def last_report(self) -> int:
        """Return the number of the newest report, 0 if there is none."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.coalesce(func.max(table.c.number), 0))).scalar_one())

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
            self._insert_all(connection, "reports", ("number", "question", *_FIELDS), rows)

    def report(self, number: int) -> StoredReport:
        """Return a report by its number."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            return _report(connection.execute(self._fields().where(table.c.number == number)).one())

    def reports(self, question: StoredQuestion) -> Iterator[StoredReport]:
        """Go through all reports on a question, by their slots."""
        table = self._table("reports")
        query = self._fields().where(table.c.question == question.key).order_by(table.c.slot)
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
            for row in connection.execute(query):
                yield _report(row)

    def count_reports(self, question: StoredQuestion) -> int:
        """Return how many reports on a question are stored."""
        table = self._table("reports")
        with self._engine.connect() as connection:
            query = select(func.count()).select_from(table).where(table.c.question == question.key)
            return int(connection.execute(query).scalar_one())

    def slots(self, question: StoredQuestion) -> Iterator[tuple[int, int]]:
        """Go through slot and number of all reports on a question."""
        table = self._table("reports")
        query = select(table.c.slot, table.c.number).where(table.c.question == question.key)
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
            for slot, number in connection.execute(query):  # noqa: UP028 - pairs, not rows
                yield slot, number

    def keep_rejected(self, process: str, counts: Mapping[str, int]) -> None:
        """Remember how many reports a process has refused, by reason, in the place of what it said before."""
        table = self._table("rejections")
        rows = [{"process": process, "reason": reason, "count": count} for reason, count in counts.items()]
        with self._engine.begin() as connection:
            connection.execute(delete(table).where(table.c.process == process))
            if rows:
                connection.execute(insert(table), rows)

    def rejected(self, process: str | None = None) -> Counter[str]:
        """Return how many reports a process, or all of them, have refused, by reason."""
        table = self._table("rejections")
        query = select(table.c.reason, table.c["count"])
        found: Counter[str] = Counter()
        with self._engine.connect() as connection:
            for reason, count in connection.execute(
                query if process is None else query.where(table.c.process == process)
            ):
                found[reason] += int(count)
        return found

    def answered(self, run: str) -> int:
        """Return how many agents have answered the closed questions of a run."""
        table = self._table("questions")
        with self._engine.connect() as connection:
            query = select(func.coalesce(func.sum(table.c.answered), 0)).where(table.c.run == run)
            return int(connection.execute(query).scalar_one())

    def _fields(self) -> Any:
        table = self._table("reports")
        return select(*(table.c[name] for name in _FIELDS))


def _question(row: Row[Any]) -> StoredQuestion:
    parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in json.loads(row.parts))
    query = json.loads(row.query)
    return StoredQuestion(row.run, int(row.question), query, parts, int(row.asked), bool(row.open), int(row.key))


def _report(row: Row[Any]) -> StoredReport:
    return StoredReport(*tuple(row))
