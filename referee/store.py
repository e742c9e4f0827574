"""How runs stand, and their transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from common.core import canonical
from common.core.database import copy_sqlite, place_for_copy
from common.core.durable import write_durably
from common.core.errors import BadInput, Conflict, NotFound
from common.log.entries import Head
from common.log.receipts import StoredCheckpoint
from common.log.transcript import EntryHash, SignedEntry
from referee.stored_questions import QuestionQueries
from referee.tables import DRIVER, ENROLLING, LEASING, REPORTING, Cohort, Participant, StoredRun, Tables

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

    def links(self, run: str, after: int) -> list[EntryHash]:
        """Return kinds and hashes of a transcript's entries behind the first ``after``, in order."""
        table = self._table("entries")
        query = select(table.c.kind, table.c.line).where(table.c.run == run, table.c.index >= after)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.index))
            return [EntryHash(kind, json.loads(line)["hash"]) for kind, line in rows]

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


_ROWS = 10_000
"""Rows that are read at a time."""


class AgentQueries(Tables):
    """Tokens, participants and cohorts."""

    # Tokens ---------------------------------------------------------------------------------------------------------

    def allow_token(self, purpose: str, sha256: str) -> None:
        """Remember the hash of the token for a purpose (``enrolment`` or ``operator``); an earlier one is forgotten."""
        tokens = self._table("tokens")
        with self._alone(ENROLLING) as connection:
            connection.execute(delete(tokens).where(tokens.c.purpose == purpose))
            connection.execute(insert(tokens).values(purpose=purpose, sha256=sha256))

    def tokens(self) -> set[tuple[str, str]]:
        """Return the purpose and the hash of every token that was allowed."""
        with self._engine.connect() as connection:
            return {(row.purpose, row.sha256) for row in connection.execute(select(self._table("tokens")))}

    # Participants ---------------------------------------------------------------------------------------------------

    def add_participants(
        self,
        begin: int,
        choose: Callable[[Iterable[Participant]], Sequence[Participant]],
        vouchers: Mapping[str, bytes] = MappingProxyType({}),
        policies: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record participants, in one transaction that no other process has at the same time.

        Args:
            begin: The agent number after all that the caller knows.
            choose: Called with those who were recorded since, from ``begin`` on; returns who is to be recorded after
                them. Whoever has not seen all others cannot record anybody: the first number would be taken.
            vouchers: What those who show something of an issuer have shown, by their keys.
            policies: What those who say so will not do, in JSON, by their keys.
        """
        with self._alone(ENROLLING) as connection:
            chosen = choose(self._participants(connection, begin))
            rows = [(p.first, bytes.fromhex(p.key), p.agents) for p in chosen]
            self._insert_all(connection, "participants", ("first", "key", "agents"), rows)
            shown = [(p.first, vouchers[p.key]) for p in chosen if p.key in vouchers]
            self._insert_all(connection, "vouchers", ("first", "voucher"), shown)
            stated = [(p.first, policies[p.key]) for p in chosen if p.key in policies]
            self._insert_all(connection, "policies", ("first", "policy"), stated)

    def renew_policies(self, policies: Mapping[int, str]) -> None:
        """Replace what participants, by their first agents, will not do, where it has changed."""
        table = self._table("policies")
        for first, policy in policies.items():
            known = select(table.c.policy).where(table.c.first == first)
            with self._engine.connect() as connection:
                if connection.execute(known).scalar() == policy:
                    continue
            with self._alone(ENROLLING) as connection:
                connection.execute(delete(table).where(table.c.first == first))
                connection.execute(insert(table).values(first=first, policy=policy))

    def policies(self) -> list[tuple[str, int]]:
        """Return what participants will not do, each with the number of all agents of whom the same is true."""
        policies, participants = self._table("policies"), self._table("participants")
        stated = select(policies.c.policy, func.sum(participants.c.agents)).join(
            participants, participants.c.first == policies.c.first
        )
        with self._engine.connect() as connection:
            return [(text, int(agents)) for text, agents in connection.execute(stated.group_by(policies.c.policy))]

    def participants(self, begin: int = 0) -> Iterator[Participant]:
        """Go through those from an agent number on, in the order of their numbers."""
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
            yield from self._participants(connection, begin)

    def vouchers(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Go through what participants below an agent number have shown of issuers, in the order of their numbers."""
        table = self._table("vouchers")
        wanted = select(table.c.first, table.c.voucher).where(table.c.first < end).order_by(table.c.first)
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
            for first, voucher in connection.execute(wanted):
                yield int(first), bytes(voucher)

    def _participants(self, connection: Connection, begin: int) -> Iterator[Participant]:
        table = self._table("participants")
        for first, key, agents in connection.execute(
            select(table.c.first, table.c.key, table.c.agents).where(table.c.first >= begin).order_by(table.c.first)
        ):
            yield Participant(key.hex(), first, agents)

    # Cohorts --------------------------------------------------------------------------------------------------------

    def cohorts(self) -> list[Cohort]:
        """Return all cohorts, oldest first."""
        table = self._table("cohorts")
        with self._engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.first)).all()
        return [Cohort(int(row.first), int(row.agents), row.seed, int(row.used)) for row in rows]


FAR = 100.0
"""A lease that lasts longer than so many of one's own is of a clock that was put back: nobody waits for it."""


class LeaseQueries(Tables):
    """The lease of the driver, and whose database this is."""

    def take_lease(self, holder: str, seconds: float, *, again: bool = False) -> bool:
        """Become the driver if nobody is; return whether this process is.

        Whoever drove before and lost the lease begins anew with a new token: what it held in memory is worth nothing.

        Args:
            holder: The name of this process.
            seconds: How long the lease lasts if it is not renewed.
            again: Whether a lease under this name may be taken over although it lasts: its process is known to have
                ended.
        """
        leases = self._table("leases")
        mine = leases.c.name == DRIVER
        with self._alone(LEASING) as connection:
            row = connection.execute(select(leases).where(mine).with_for_update()).first()
            now = self._now(connection)
            free = row is None or not now < row.expires <= now + FAR * seconds or (again and row.holder == holder)
            token = 0 if row is None else int(row.token)
            if row is not None and token == self.fence:
                return True
            if free:
                token += 1
                lease = {"holder": holder, "token": token, "expires": now + seconds}
                connection.execute(
                    insert(leases).values(name=DRIVER, **lease)
                    if row is None
                    else update(leases).where(mine).values(lease)
                )
        self.fence = token if free else None
        return free

    def renew_lease(self, seconds: float) -> None:
        """Let the lease last from now on, if this process holds it; it is never taken here."""
        leases, fence = self._table("leases"), self.fence
        with self._alone(LEASING) as connection:
            held = update(leases).where(leases.c.name == DRIVER, leases.c.token == fence)
            if not connection.execute(held.values(expires=self._now(connection) + seconds)).rowcount:
                self.fence = None

    def release_lease(self) -> None:
        """Drive no more, and let another process begin at once."""
        fence, self.fence = self.fence, None
        if fence is not None:
            leases = self._table("leases")
            with self._alone(LEASING) as connection:
                connection.execute(
                    update(leases).where(leases.c.name == DRIVER, leases.c.token == fence).values(expires=0.0)
                )

    def lease_left(self) -> float | None:
        """Return for how many seconds the lease lasts, whoever has it; negative once it has run out, None: never taken.

        A driver that has let go of it on purpose leaves a lease that ran out long ago.
        """
        leases = self._table("leases")
        with self._engine.connect() as connection:
            expires = connection.execute(select(leases.c.expires).where(leases.c.name == DRIVER)).scalar()
            return None if expires is None else float(expires) - self._now(connection)

    def owner(self, key: str) -> str:
        """Return the key of the referee to whom the database belongs: this one's, if it belongs to nobody yet."""
        identity = self._table("identity")
        known = select(identity.c.key)
        try:
            with self._engine.begin() as connection:
                found = connection.execute(known).scalar()
                if found is None:
                    connection.execute(insert(identity).values(name="referee", key=key))
                return found or key
        except IntegrityError:  # another process was quicker
            with self._engine.connect() as connection:
                return str(connection.execute(known).scalar_one())


class CheckpointQueries(Tables):
    """Checkpoints by run and number of entries."""

    def keep_checkpoint(self, run: str, entries: int, kept: StoredCheckpoint) -> None:
        """Store a checkpoint, in the place of what was stored of it before."""
        table = self._table("checkpoints")
        with self._driving() as connection:
            connection.execute(delete(table).where(table.c.run == run, table.c.entries == entries))
            line = canonical.encode(kept.wire()).decode()
            connection.execute(insert(table).values(run=run, entries=entries, kept=line))

    def checkpoints(self, run: str, after: int = 0, most: int = 1 << 31) -> list[StoredCheckpoint]:
        """Return so many of a run's checkpoints after the first ones, oldest first."""
        table = self._table("checkpoints")
        with self._engine.connect() as connection:
            query = select(table.c.kept).where(table.c.run == run).order_by(table.c.entries).offset(after).limit(most)
            return [StoredCheckpoint.parse(json.loads(line)) for line in connection.execute(query).scalars()]

    def last_checkpoint(self, run: str) -> StoredCheckpoint | None:
        """Return a run's newest checkpoint."""
        table = self._table("checkpoints")
        with self._engine.connect() as connection:
            query = select(table.c.kept).where(table.c.run == run).order_by(table.c.entries.desc()).limit(1)
            line = connection.execute(query).scalar()
        return None if line is None else StoredCheckpoint.parse(json.loads(line))


class RefereeStore(AgentQueries, RunQueries, QuestionQueries, CheckpointQueries, LeaseQueries):
    """The referee's database: all its queries together.

    Args:
        url: SQLAlchemy URL; the schema is brought up to date.
    """


KEY, DATABASE = "identity.key", "referee.sqlite"


def backup(state: Path, copy: Path, key: Path | None = None) -> None:
    """Copy a referee's database and signing key; the copy is a state directory to start from.

    Args:
        state: The referee's state directory, with a database on SQLite in it.
        copy: A directory that does not exist, or is empty; made with mode 0700, since it holds the signing key.
        key: The key's file, where it is not in the state directory.

    Raises:
        BadInput: If there is no such database or key, or the place is taken.
    """
    key = key or state / KEY
    if not (state / DATABASE).exists():
        raise BadInput(f"{state} holds no {DATABASE}: a database on PostgreSQL is copied with pg_dump")
    if not key.exists():
        raise BadInput(f"there is no key {key}: give the file that the referee is started with (--key)")
    place_for_copy(copy)
    copy_sqlite(state / DATABASE, copy / DATABASE)
    write_durably(copy / KEY, key.read_bytes(), mode=0o600)
