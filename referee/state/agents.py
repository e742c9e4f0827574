"""Who may enrol, who is enrolled, and which agents were enrolled together."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from common.core.errors import Conflict, Refused
from common.wire.messages import MAX_AGENTS
from referee.state.tables import Tables
from referee.state.values import Cohort, Participant


class AgentQueries(Tables):
    """Tokens, participants and cohorts."""

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
