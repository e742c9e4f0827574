"""How runs stand, and their transcripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from common.core.errors import Conflict, NotFound
from common.log.entries import Head
from common.log.transcript import SignedEntry
from referee.state.tables import REPORTING, Tables
from referee.state.values import Cohort, StoredRun

UNFINISHED = ("waiting", "running", "cancelling")


class RunQueries(Tables):
    """Runs and transcript entries."""

    # Runs -----------------------------------------------------------------------------------------------------------

    def create_run(self, run: str, request: str, scenario: dict[str, Any], seed: int | None) -> StoredRun:
        """Create a run; the same request again returns it as it stands.

        Raises:
            Conflict: If the name is taken by another request.
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

    def run(self, run: str) -> StoredRun:
        """Return a run.

        Raises:
            NotFound: If there is none of that name.
        """
        table = self._table("runs")
        with self._engine.connect() as connection:
            row = connection.execute(select(table).where(table.c.run == run)).first()
        if row is None:
            raise NotFound(f"there is no run {run!r}")
        return _run(row)

    def runs(self) -> list[StoredRun]:
        """Return all runs, oldest first."""
        table = self._table("runs")
        with self._engine.connect() as connection:
            return [_run(row) for row in connection.execute(select(table).order_by(table.c.position)).all()]

    def cancel(self, run: str) -> None:
        """Note that a run is to be cancelled, unless it has ended."""
        table = self._table("runs")
        with self._engine.begin() as connection:
            open_ones = table.c.status.in_(("waiting", "running"))
            connection.execute(update(table).where(table.c.run == run, open_ones).values(status="cancelling"))

    def cancelled(self, run: str) -> bool:
        """Tell whether a run is to be cancelled."""
        table = self._table("runs")
        with self._engine.connect() as connection:
            return connection.execute(select(table.c.status).where(table.c.run == run)).scalar() == "cancelling"

    def unfinished(self) -> list[StoredRun]:
        """Return runs that have no result, oldest first."""
        table = self._table("runs")
        with self._engine.connect() as connection:
            query = select(table).where(table.c.status.in_(UNFINISHED)).order_by(table.c.position)
            return [_run(row) for row in connection.execute(query).all()]

    def finish(self, run: str, status: str, result: dict[str, Any], entry: SignedEntry | None) -> None:
        """Record a run's end, with its last transcript entry if it got so far."""
        runs, questions = self._table("runs"), self._table("questions")
        with self._driving(REPORTING) as connection:
            connection.execute(update(runs).where(runs.c.run == run).values(status=status, result=json.dumps(result)))
            connection.execute(update(questions).where(questions.c.run == run).values(open=False))
            if entry is not None:
                self._insert_entry(connection, run, entry, None)
        self._newest.pop(run, None)

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
                connection.execute(
                    insert(self._table("cohorts")).values(
                        first=cohort.first, agents=cohort.agents, seed=cohort.seed, used=cohort.used
                    )
                )
            self._reseed(connection, seeds)
            runs = self._table("runs")
            connection.execute(update(runs).where(runs.c.run == run).values(configuration=json.dumps(configuration)))
            connection.execute(
                update(runs).where(runs.c.run == run, runs.c.status == "waiting").values(status="running")
            )
            fence = self._insert_entry(connection, run, entry, None)
        self._appended(run, entry, fence)

    # Transcript -----------------------------------------------------------------------------------------------------

    def add_entry(
        self, run: str, entry: SignedEntry, step: int | None = None, seeds: Mapping[int, str] | None = None
    ) -> None:
        """Append an entry to a run's transcript; ``step`` marks it as the reply to that step of the protocol.

        With it come new seeds of orders, by their first agents, all or nothing.
        """
        with self._driving() as connection:
            fence = self._insert_entry(connection, run, entry, step)
            self._reseed(connection, seeds)
        self._appended(run, entry, fence)

    def _reseed(self, connection: Connection, seeds: Mapping[int, str] | None) -> None:
        cohorts = self._table("cohorts")
        for first, seed in (seeds or {}).items():
            connection.execute(update(cohorts).where(cohorts.c.first == first).values(seed=seed))

    def entries(self, run: str) -> list[str]:
        """Return the transcript's lines."""
        table = self._table("entries")
        with self._engine.connect() as connection:
            query = select(table.c.line).where(table.c.run == run).order_by(table.c.index)
            return list(connection.execute(query).scalars())

    def links(self, run: str, after: int) -> list[tuple[str, str]]:
        """Return kinds and hashes of a transcript's entries behind the first ``after``, in order."""
        table = self._table("entries")
        query = select(table.c.kind, table.c.line).where(table.c.run == run, table.c.index >= after)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.index))
            return [(kind, json.loads(line)["hash"]) for kind, line in rows]

    def last_entry(self, run: str) -> SignedEntry | None:
        """Return the newest entry of a run's transcript."""
        fence, entry = self._newest.get(run, (None, None))
        if fence is not None and fence == self.fence:
            return entry
        table = self._table("entries")
        with self._engine.connect() as connection:
            query = select(table.c.line).where(table.c.run == run).order_by(table.c.index.desc()).limit(1)
            line = connection.execute(query).scalar()
        return None if line is None else SignedEntry.parse(json.loads(line))

    def first_entry(self, run: str) -> SignedEntry | None:
        """Return the oldest entry of a run's transcript: its configuration."""
        table = self._table("entries")
        with self._engine.connect() as connection:
            line = connection.execute(select(table.c.line).where(table.c.run == run, table.c.index == 0)).scalar()
        return None if line is None else SignedEntry.parse(json.loads(line))

    def reply_entry(self, run: str, step: int) -> SignedEntry | None:
        """Return the entry that holds the reply to a step of the protocol, if it was given already."""
        query = self._once("reply", self._reply)
        with self._engine.connect() as connection:
            line = connection.execute(query, {"of": run, "at": step}).scalar()
        return None if line is None else SignedEntry.parse(json.loads(line))

    def _reply(self) -> Select[Any]:
        table = self._table("entries")
        return select(table.c.line).where(table.c.run == bindparam("of"), table.c.step == bindparam("at"))

    def heads(self, curator: str) -> list[tuple[str, Head]]:
        """Return the last head of its ledger that a curator has shown in each run, by run."""
        table = self._table("entries")
        query = select(table.c.run, table.c.line).where(table.c.kind.in_(("terms", "operation")))
        found: dict[str, Head] = {}
        with self._engine.connect() as connection:
            for run, line in connection.execute(query.order_by(table.c.run, table.c.index)):
                body = json.loads(line)["body"]
                reply = body.get("terms") or body["release"]
                if reply["key"] == curator:
                    found[run] = Head.parse(reply["message"]["ledger"]["head"])
        return list(found.items())


def _run(row: Row[Any]) -> StoredRun:
    return StoredRun(
        run=row.run,
        request=row.request,
        scenario=json.loads(row.scenario),
        seed=row.seed,
        status=row.status,
        configuration=None if row.configuration is None else json.loads(row.configuration),
        result=None if row.result is None else json.loads(row.result),
    )
