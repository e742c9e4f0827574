"""Who may enrol, who is enrolled, and which agents were enrolled together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection, delete, func, insert, select

from referee.state.tables import ENROLLING, Tables
from referee.state.values import Cohort, Participant

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

        Parameters
        ----------
        begin
            The agent number after all that the caller knows.
        choose
            Called with those who were recorded since, from ``begin`` on; returns who is to be recorded after them.
            Whoever has not seen all others cannot record anybody: the first number would be taken.
        vouchers
            What those who show something of an issuer have shown, by their keys.
        policies
            What those who say so will not do, in JSON, by their keys.
        """
        with self._alone(ENROLLING) as connection:
            chosen = choose(self._participants(connection, begin))
            rows = [(p.first, bytes.fromhex(p.key), p.agents) for p in chosen]
            self._insert_all(connection, "participants", ("first", "key", "agents"), rows)
            shown = [(p.first, vouchers[p.key]) for p in chosen if p.key in vouchers]
            self._insert_all(connection, "vouchers", ("first", "voucher"), shown)
            said = [(p.first, policies[p.key]) for p in chosen if p.key in policies]
            self._insert_all(connection, "policies", ("first", "policy"), said)

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
        said = select(policies.c.policy, func.sum(participants.c.agents)).join(
            participants, participants.c.first == policies.c.first
        )
        with self._engine.connect() as connection:
            return [(text, int(agents)) for text, agents in connection.execute(said.group_by(policies.c.policy))]

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
