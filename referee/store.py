"""The referee's database and all its queries: those here are about questions, reports, runs and who drives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from common.core import canonical
from common.core.database import copy_sqlite, place_for_copy, sqlite_url
from common.core.durable import write_durably
from common.core.errors import BadInput, Conflict, NotFound
from common.log.entries import Head
from common.log.receipts import StoredCheckpoint
from common.log.transcript import EntryHash, SignedEntry
from referee.agent_queries import AgentQueries
from referee.tables import (
    CHECKPOINTS,
    COHORTS,
    DRIVER,
    ENTRIES,
    IDENTITY,
    LEASES,
    LEASING,
    QUESTIONS,
    REJECTIONS,
    REPORTING,
    REPORTS,
    RUNS,
    Cohort,
    Part,
    ReportRef,
    StoredQuestion,
    StoredReport,
    StoredRun,
    Tables,
)

_FIELDS = ("slot", "individual", "report_id", "answered", "signature", "body", "message")
"""Of a stored report, in its own order."""
_REPORT = select(*(REPORTS.c[name] for name in _FIELDS))
_AT: BindParameter[Any] = bindparam("at")
_OF: BindParameter[Any] = bindparam("of")
_AFTER: BindParameter[Any] = bindparam("after")
# What every question needs is made once: to make a statement takes longer than to carry it out.
_ADD_QUESTION = insert(QUESTIONS).returning(QUESTIONS.c.key)
_TAKE_NEXT = (
    update(COHORTS)
    .where(COHORTS.c.first == bindparam("cohort"), COHORTS.c.used == bindparam("start"))
    .values(used=bindparam("stop"))
)
_ONE_QUESTION = select(QUESTIONS).where(QUESTIONS.c.run == _OF, QUESTIONS.c.question == _AT)
_LAST_QUESTION = select(func.coalesce(func.max(QUESTIONS.c.key), 0)).where(QUESTIONS.c.run == _OF)
_SINCE = QUESTIONS.c.key > _LAST_QUESTION.correlate(None).scalar_subquery()
_LATER_QUESTIONS = select(QUESTIONS).where(_SINCE).order_by(QUESTIONS.c.key)
_PLACES = select(QUESTIONS.c.key, QUESTIONS.c.run, QUESTIONS.c.question).order_by(QUESTIONS.c.key)
_OPEN_QUESTIONS = _PLACES.where(QUESTIONS.c.open)
_ANSWERED = select(func.coalesce(func.sum(REPORTS.c.answered), 0)).where(REPORTS.c.question == _AT)
_CLOSE_QUESTION = (
    update(QUESTIONS)
    .where(QUESTIONS.c.key == _AT, QUESTIONS.c.open)
    .values(open=False, answered=_ANSWERED.scalar_subquery())
)
_STORED = select(REPORTS.c.number, REPORTS.c.question, REPORTS.c.slot).order_by(REPORTS.c.number)
_REPORTS_AFTER = _STORED.where(REPORTS.c.number > _AFTER)
_NUMBERED_REPORT = _REPORT.where(REPORTS.c.number == _AT)
_REPORTS_ON = _REPORT.where(REPORTS.c.question == _AT).order_by(REPORTS.c.slot)
_SLOTS_ON = select(REPORTS.c.slot, REPORTS.c.number).where(REPORTS.c.question == _AT)


class QuestionQueries(Tables):
    """Questions and reports."""

    def open_question(self, question: StoredQuestion, entry: SignedEntry) -> int:
        """Record a question, the agents it takes from their cohorts, and its transcript entry, all or nothing.

        Return its key.
        """
        with self._driving() as connection:
            row = {**vars(question), "query": json.dumps(question.query), "parts": _parts(question), "answered": 0}
            del row["key"], row["again"]  # the database counts; the parts say it
            key = int(connection.execute(_ADD_QUESTION, row).scalar_one())
            for part in question.parts if question.again is None else ():
                values = {"cohort": part.cohort, "start": part.start, "stop": part.stop}
                if connection.execute(_TAKE_NEXT, values).rowcount != 1:
                    raise AssertionError("agents are taken that another question has, or not the next ones")
            fence = self._insert_entry(connection, question.run, entry)
        self._ends = {question.run: (fence, entry, question.question - 1)}  # steps are answered in their order
        return key

    def question(self, run: str, number: int) -> StoredQuestion | None:
        rows = self._all(_ONE_QUESTION, {"of": run, "at": number})
        return _question(rows[0]) if rows else None

    def questions(self, run: str) -> list[StoredQuestion]:
        rows = self._all(select(QUESTIONS).where(QUESTIONS.c.run == run).order_by(QUESTIONS.c.question))
        return list(map(_question, rows))

    def questions_since(self, run: str) -> list[StoredQuestion]:
        """Return the questions of all runs that were opened after the last one of a run; all, if it has none."""
        return list(map(_question, self._all(_LATER_QUESTIONS, {"of": run})))

    def asked(self, run: str) -> int:
        """Return how many answers a run has asked for."""
        return int(self._value(select(func.sum(QUESTIONS.c.asked)).where(QUESTIONS.c.run == run)) or 0)

    def agents_asked(self, run: str) -> int:
        """Return how many agents it has asked for them, each counted once."""
        fresh = (QUESTIONS.c.run == run) & QUESTIONS.c.parts.not_like(_AGAIN)
        return int(self._value(select(func.sum(QUESTIONS.c.asked)).where(fresh)) or 0)

    def answered(self, run: str) -> int:
        return int(self._value(select(func.sum(QUESTIONS.c.answered)).where(QUESTIONS.c.run == run)) or 0)

    def open_questions(self) -> dict[int, tuple[str, int]]:
        """Return run and number of every question that takes answers, by their keys, oldest first."""
        with self._engine.connect() as connection:
            return self._open_questions(connection)

    def _open_questions(self, connection: Connection) -> dict[int, tuple[str, int]]:
        return {int(key): (run, int(number)) for key, run, number in connection.execute(_OPEN_QUESTIONS)}

    def close_question(self, question: StoredQuestion) -> None:
        """Take no more answers, in no process, and remember how many agents have answered."""
        with self._driving(REPORTING) as connection:
            connection.execute(_CLOSE_QUESTION, {"at": question.key})

    def reports_after(self, newest: int) -> list[ReportRef]:
        """Return which reports were stored after number ``newest``, oldest first."""
        with self._engine.connect() as connection:
            return self._reports_after(connection, newest)

    def _reports_after(self, connection: Connection, newest: int) -> list[ReportRef]:
        return [ReportRef(*row) for row in connection.execute(_REPORTS_AFTER, {"after": newest})]

    def last_report(self) -> int:
        return int(self._value(select(func.max(REPORTS.c.number))) or 0)

    def add_reports(
        self, newest: int, choose: Callable[[Sequence[ReportRef], AbstractSet[int]], Sequence[tuple[int, StoredReport]]]
    ) -> None:
        """Store reports, in one transaction that no other process has at the same time, numbered without gaps.

        Args:
            newest: The number of the last report that the caller knows.
            choose: Called with those that were stored since, and with the keys of the questions that take answers;
                returns the reports to be stored after them, each with the key of its question. Whoever has not seen all
                others cannot store any: the number would be taken.
        """
        with self._alone(REPORTING) as connection:
            stored = self._reports_after(connection, newest)
            chosen = choose(stored, self._open_questions(connection).keys())
            first = (stored[-1].number if stored else newest) + 1
            rows = [
                (number, question, r.slot, r.individual, r.report_id, r.answered, r.signature, r.body, r.message)
                for number, (question, r) in enumerate(chosen, start=first)
            ]
            self._insert_all(connection, REPORTS, ("number", "question", *_FIELDS), rows)

    def report(self, number: int) -> StoredReport:
        return StoredReport(*self._all(_NUMBERED_REPORT, {"at": number})[0])

    def reports(self, question: StoredQuestion) -> Iterator[StoredReport]:
        rows = self._stream(_REPORTS_ON, {"at": question.key})
        return (StoredReport(*row) for row in rows)

    def count_reports(self, question: StoredQuestion) -> int:
        return int(self._value(select(func.count()).where(REPORTS.c.question == question.key)))

    def slots(self, question: StoredQuestion) -> Iterator[tuple[int, int]]:
        rows = self._stream(_SLOTS_ON, {"at": question.key})
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
        counts: Counter[str] = Counter()
        for reason, count in self._all(query if process is None else query.where(REJECTIONS.c.process == process)):
            counts[reason] += int(count)
        return counts


_AGAIN = '{"again":%'  # how the parts of a question begin whose agents were asked before in its run


def _parts(question: StoredQuestion) -> str:
    listed = [[part.cohort, part.start, part.stop] for part in question.parts]
    again = {"again": question.again, "parts": listed}
    return json.dumps(listed if question.again is None else again, separators=(",", ":"))


def _question(row: Row[Any]) -> StoredQuestion:
    tree = json.loads(row.parts)
    again, listed = (tree["again"], tree["parts"]) if isinstance(tree, dict) else (None, tree)
    parts = tuple(Part(int(c), int(a), int(b)) for c, a, b in listed)
    return StoredQuestion(
        row.run, int(row.question), json.loads(row.query), parts, int(row.asked), bool(row.open), int(row.key), again
    )


_LINES = select(ENTRIES.c.line)
_LAST_LINE = _LINES.where(ENTRIES.c.run == _OF).order_by(ENTRIES.c.index.desc()).limit(1)
_REPLY = _LINES.where(ENTRIES.c.run == bindparam("of"), ENTRIES.c.step == bindparam("at"))
_RUNS_BY_STATUS = select(RUNS.c.status, func.count()).group_by(RUNS.c.status)
_DRIVERS = LEASES.c.name == DRIVER
UNFINISHED = ("waiting", "running", "cancelling")


class RunQueries(Tables):
    """Runs and transcript entries."""

    def create_run(self, run: str, request: str, scenario: dict[str, Any], seed: int | None) -> StoredRun:
        new = {"run": run, "request": request, "scenario": json.dumps(scenario), "seed": seed, "status": "waiting"}
        while True:
            try:
                stored = self.run(run)
            except NotFound:
                try:
                    with self._engine.begin() as connection:
                        newest = connection.execute(select(func.max(RUNS.c.position))).scalar_one() or 0
                        connection.execute(insert(RUNS).values(**new, position=int(newest) + 1))
                except IntegrityError:
                    continue  # another request took the name or the position: look again
                return self.run(run)
            if stored.request != request:
                raise Conflict(f"run {run!r} exists with another scenario or seed")
            return stored

    def run(self, run: str) -> StoredRun:
        rows = self._all(select(RUNS).where(RUNS.c.run == run))
        if not rows:
            raise NotFound(f"there is no run {run!r}")
        return _run(rows[0])

    def runs(self) -> list[StoredRun]:
        return list(map(_run, self._all(select(RUNS).order_by(RUNS.c.position))))

    def states(self) -> dict[str, int]:
        """Return how many runs have each status."""
        return {status: int(runs) for status, runs in self._all(_RUNS_BY_STATUS)}

    def ended(self) -> list[str]:
        """Return the names of the runs that began and have ended, oldest first."""
        query = select(RUNS.c.run).where(RUNS.c.configuration.is_not(None), RUNS.c.result.is_not(None))
        return [run for (run,) in self._all(query.order_by(RUNS.c.position))]

    def cancel(self, run: str) -> None:
        """Note that a run is to be cancelled, unless it has ended."""
        with self._engine.begin() as connection:
            open_ones = RUNS.c.status.in_(("waiting", "running"))
            connection.execute(update(RUNS).where(RUNS.c.run == run, open_ones).values(status="cancelling"))

    def cancelled(self, run: str) -> bool:
        return bool(self._value(select(RUNS.c.status).where(RUNS.c.run == run)) == "cancelling")

    def unfinished(self) -> list[StoredRun]:
        return list(map(_run, self._all(select(RUNS).where(RUNS.c.status.in_(UNFINISHED)).order_by(RUNS.c.position))))

    def finish(self, run: str, status: str, result: dict[str, Any], entry: SignedEntry | None) -> None:
        """Record a run's end, with its last transcript entry if it got so far."""
        with self._driving(REPORTING) as connection:
            connection.execute(update(RUNS).where(RUNS.c.run == run).values(status=status, result=json.dumps(result)))
            connection.execute(update(QUESTIONS).where(QUESTIONS.c.run == run).values(open=False))
            if entry is not None:
                self._insert_entry(connection, run, entry)

    def configure(
        self,
        run: str,
        configuration: dict[str, Any],
        cohort: Cohort | None,
        entry: SignedEntry,
        seeds: Mapping[int, str] | None = None,
    ) -> None:
        """Fix a run's configuration, its new cohort, others' new seeds and its first transcript entry, all or nothing.

        ``seeds`` are by the first agents of their orders.
        """
        with self._driving() as connection:
            if cohort is not None:
                connection.execute(insert(COHORTS).values(**asdict(cohort)))
            self._reseed(connection, seeds)
            statement = update(RUNS).where(RUNS.c.run == run)
            connection.execute(statement.values(configuration=json.dumps(configuration)))
            connection.execute(statement.where(RUNS.c.status == "waiting").values(status="running"))
            self._insert_entry(connection, run, entry)

    def add_entry(
        self, run: str, entry: SignedEntry, step: int | None = None, seeds: Mapping[int, str] | None = None
    ) -> None:
        """Append an entry to a run's transcript; ``step`` marks it as the reply to that step of the protocol.

        With it come new seeds of orders, by their first agents, all or nothing.
        """
        with self._driving() as connection:
            fence = self._insert_entry(connection, run, entry, step)
            self._reseed(connection, seeds)
        self._ends = {run: (fence, entry, step)}

    def _reseed(self, connection: Connection, seeds: Mapping[int, str] | None) -> None:
        for first, seed in (seeds or {}).items():
            connection.execute(update(COHORTS).where(COHORTS.c.first == first).values(seed=seed))

    def entries(self, run: str, after: int = 0, most: int = 1 << 31) -> list[str]:
        """Return so many of a run's entries after the first ones, each as one line of JSON."""
        lines = _LINES.where(ENTRIES.c.run == run, ENTRIES.c.index >= after).order_by(ENTRIES.c.index)
        return [line for (line,) in self._all(lines.limit(most))]

    def links(self, run: str, after: int) -> list[EntryHash]:
        query = select(ENTRIES.c.kind, ENTRIES.c.line).where(ENTRIES.c.run == run, ENTRIES.c.index >= after)
        return [EntryHash(kind, json.loads(line)["hash"]) for kind, line in self._all(query.order_by(ENTRIES.c.index))]

    def last_entry(self, run: str) -> SignedEntry | None:
        """Return the newest entry; what this process has written as the driver that it is need not be read."""
        fence, entry, _ = self._ends.get(run, (None, None, None))
        return entry if fence is not None and fence == self.fence else self._entry(_LAST_LINE, {"of": run})

    def first_entry(self, run: str) -> SignedEntry | None:
        return self._entry(_LINES.where(ENTRIES.c.run == run, ENTRIES.c.index == 0))

    def reply_entry(self, run: str, step: int) -> SignedEntry | None:
        """Return the entry that holds the reply to a step of the protocol, if it was given already."""
        fence, _, last = self._ends.get(run, (None, None, None))
        # What comes before the protocol's first step has negative steps, which do not ascend.
        if fence is not None and fence == self.fence and last is not None and step > last >= 0:
            return None
        return self._entry(_REPLY, {"of": run, "at": step})

    def _entry(self, query: Select[Any], params: Mapping[str, Any] | None = None) -> SignedEntry | None:
        line = self._value(query, params)
        return None if line is None else SignedEntry.parse(json.loads(line))

    def heads(self, curator: str) -> list[tuple[str, Head]]:
        """Return the last head of its ledger that a curator has shown in each run, by run."""
        condition = ENTRIES.c.kind.in_(("terms", "operation"))
        last = (
            select(ENTRIES.c.run, func.max(ENTRIES.c.index).label("at"))
            .where(condition)
            .group_by(ENTRIES.c.run)
            .subquery()
        )
        join = (ENTRIES.c.run == last.c.run) & (ENTRIES.c.index == last.c.at)
        query = select(ENTRIES.c.run, ENTRIES.c.line).join(last, join)
        heads: dict[str, Head] = {}
        for run, line in self._all(query.order_by(ENTRIES.c.run)):
            body = json.loads(line)["body"]
            reply = body.get("terms") or body["release"]
            if reply["key"] == curator:
                heads[run] = Head.parse(reply["message"]["ledger"]["head"])
        return list(heads.items())


def _run(row: Row[Any]) -> StoredRun:
    configuration, result = (None if text is None else json.loads(text) for text in (row.configuration, row.result))
    return StoredRun(row.run, row.request, json.loads(row.scenario), row.seed, row.status, configuration, result)


FAR = 100.0  # A lease that lasts longer than so many of one's own is of a clock that was put back: nobody waits for it


class LeaseQueries(Tables):
    """The lease of the driver, and whose database this is."""

    def take_lease(self, holder: str, seconds: float, *, again: bool = False) -> bool:
        """Become the driver if nobody is; return whether this process is.

        Whoever drove before and lost the lease begins anew with a new token: what it held in memory is worth nothing.
        ``again``: a lease under this name may be taken over although it lasts, since its process is known to have
        ended.
        """
        with self._alone(LEASING) as connection:
            row = connection.execute(select(LEASES).where(_DRIVERS).with_for_update()).first()
            now = self._now(connection)
            free = row is None or not now < row.expires <= now + FAR * seconds or (again and row.holder == holder)
            token = 0 if row is None else int(row.token)
            if row is not None and token == self.fence:
                return True
            if free:
                token += 1
                lease = {"holder": holder, "token": token, "expires": now + seconds}
                first = insert(LEASES).values(name=DRIVER, **lease)
                connection.execute(first if row is None else update(LEASES).where(_DRIVERS).values(lease))
        self.fence = token if free else None
        return free

    def renew_lease(self, seconds: float) -> None:
        """Let the lease last from now on, if this process holds it; it is never taken here."""
        statement = update(LEASES).where(_DRIVERS, LEASES.c.token == self.fence)
        with self._alone(LEASING) as connection:
            if not connection.execute(statement.values(expires=self._now(connection) + seconds)).rowcount:
                self.fence = None

    def release_lease(self) -> None:
        """Drive no more, and let another process begin at once."""
        fence, self.fence = self.fence, None
        if fence is not None:
            with self._alone(LEASING) as connection:
                connection.execute(update(LEASES).where(_DRIVERS, LEASES.c.token == fence).values(expires=0.0))

    def lease_left(self) -> float | None:
        """Return for how many seconds the lease lasts, whoever has it; negative once it has run out, None: never taken.

        A driver that has let go of it on purpose leaves a lease that ran out long ago.
        """
        with self._engine.connect() as connection:
            expires = connection.execute(select(LEASES.c.expires).where(_DRIVERS)).scalar()
            return None if expires is None else float(expires) - self._now(connection)

    def check_owner(self, key: str) -> None:
        """Refuse the database of another referee than the one with a key (BadInput); one of nobody becomes its own."""
        owner = self.owner(key)
        if owner != key:
            raise BadInput(
                f"the database is that of referee {owner[:16]}..., this one is {key[:16]}...: give its key file with "
                "--key"
            )

    def owner(self, key: str) -> str:
        """Return the key of the referee to whom the database belongs: this one's, if it belongs to nobody yet."""
        query = select(IDENTITY.c.key)
        try:
            with self._engine.begin() as connection:
                owner = connection.execute(query).scalar()
                if owner is None:
                    connection.execute(insert(IDENTITY).values(name="referee", key=key))
                return owner or key
        except IntegrityError:  # another process was quicker
            return str(self._value(query))


class CheckpointQueries(Tables):
    """Checkpoints by run and number of entries."""

    def keep_checkpoint(self, run: str, entries: int, checkpoint: StoredCheckpoint) -> None:
        with self._driving() as connection:
            connection.execute(delete(CHECKPOINTS).where(CHECKPOINTS.c.run == run, CHECKPOINTS.c.entries == entries))
            line = canonical.encode(checkpoint.wire()).decode()
            connection.execute(insert(CHECKPOINTS).values(run=run, entries=entries, kept=line))

    def checkpoints(self, run: str, after: int = 0, most: int = 1 << 31) -> list[StoredCheckpoint]:
        """Return so many of a run's checkpoints after the first ones, oldest first."""
        query = select(CHECKPOINTS.c.kept).where(CHECKPOINTS.c.run == run).order_by(CHECKPOINTS.c.entries)
        return [StoredCheckpoint.parse(json.loads(line)) for (line,) in self._all(query.offset(after).limit(most))]

    def last_checkpoint(self, run: str) -> StoredCheckpoint | None:
        query = select(CHECKPOINTS.c.kept).where(CHECKPOINTS.c.run == run)
        line = self._value(query.order_by(CHECKPOINTS.c.entries.desc()).limit(1))
        return None if line is None else StoredCheckpoint.parse(json.loads(line))


class RefereeStore(AgentQueries, RunQueries, QuestionQueries, CheckpointQueries, LeaseQueries):
    """The referee's database: all its queries together."""


KEY, DATABASE = "identity.key", "referee.sqlite"


def backup(state: Path, copy: Path, key: Path | None = None) -> None:
    """Copy a referee's database and signing key; the copy is a state directory to start from."""
    key = key or state / KEY
    if not (state / DATABASE).exists():
        raise BadInput(f"{state} holds no {DATABASE}: a database on PostgreSQL is copied with pg_dump")
    if not key.exists():
        raise BadInput(f"there is no key {key}: give the file that the referee is started with (--key)")
    RefereeStore(sqlite_url(state / DATABASE)).close()  # which refuses what no referee of today starts from
    place_for_copy(copy)
    copy_sqlite(state / DATABASE, copy / DATABASE)
    write_durably(copy / KEY, key.read_bytes(), mode=0o600)
