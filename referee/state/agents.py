"""Who may enrol, who is enrolled, and which agents were enrolled together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import delete, insert, select

from referee.state.tables import Tables
from referee.state.values import Cohort, Participant

_ROWS = 10_000
"""Rows that are read at a time."""


class AgentQueries(Tables):
    """Tokens, participants and cohorts."""

    # Tokens ---------------------------------------------------------------------------------------------------------

    def allow_token(self, purpose: str, sha256: str) -> None:
        """Remember the hash of the token for a purpose (``enrolment`` or ``operator``); an earlier one is forgotten."""
        tokens = self._table("tokens")
        with self._engine.begin() as connection:
            connection.execute(delete(tokens).where(tokens.c.purpose == purpose))
            connection.execute(insert(tokens).values(purpose=purpose, sha256=sha256))

    def tokens(self) -> set[tuple[str, str]]:
        """Return the purpose and the hash of every token that was allowed."""
        with self._engine.connect() as connection:
            return {(row.purpose, row.sha256) for row in connection.execute(select(self._table("tokens")))}

    # Participants ---------------------------------------------------------------------------------------------------

    def add_participants(self, participants: Sequence[Participant]) -> None:
        """Record participants, in one transaction."""
        rows = [(p.first, bytes.fromhex(p.key), p.agents) for p in participants]
        self._insert_all("participants", ("first", "key", "agents"), rows)

    def participants(self, begin: int = 0) -> Iterator[Participant]:
        """Go through those from an agent number on, in the order of their numbers."""
        table = self._table("participants")
        with self._engine.connect().execution_options(yield_per=_ROWS) as connection:
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
