"""The referee's queries about agents: tokens, invitation codes, who is enrolled, and what they will not do."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from referee.tables import (
    COHORTS,
    ENROLLING,
    INVITATIONS,
    PARTICIPANTS,
    POLICIES,
    TOKENS,
    VOUCHERS,
    Cohort,
    Participant,
    Tables,
)

_FORGET_POLICY = delete(POLICIES).where(POLICIES.c.first == bindparam("at"))
_ALL_TOKENS = select(TOKENS)
_PARTICIPANTS_FROM = (
    select(PARTICIPANTS.c.key, PARTICIPANTS.c.first, PARTICIPANTS.c.agents)
    .where(PARTICIPANTS.c.first >= bindparam("begin"))
    .order_by(PARTICIPANTS.c.first)
)
_ALL_COHORTS = select(COHORTS).order_by(COHORTS.c.first)
_USE_INVITATION = update(INVITATIONS).where(INVITATIONS.c.sha256 == bindparam("code")).values(key=bindparam("by"))


class AgentQueries(Tables):
    """Tokens, invitation codes, participants and cohorts."""

    def allow_token(self, purpose: str, sha256: str | None) -> None:
        """Remember the hash of the only token for a purpose, ``enrolment`` or another; None: there is none."""
        with self._alone(ENROLLING) as connection:
            connection.execute(delete(TOKENS).where(TOKENS.c.purpose == purpose))
            if sha256 is not None:
                connection.execute(insert(TOKENS).values(purpose=purpose, sha256=sha256))

    def tokens(self) -> set[tuple[str, str]]:
        return {(row.purpose, row.sha256) for row in self._all(_ALL_TOKENS)}

    def invite(self, hashes: Iterable[str]) -> None:
        with self._alone(ENROLLING) as connection:
            connection.execute(insert(INVITATIONS), [{"sha256": sha256} for sha256 in hashes])

    def invitations(self, hashes: Iterable[str]) -> dict[str, str]:
        """Return which of these are hashes of invitation codes, each with the key that has used it; empty: none."""
        with self._engine.connect() as connection:
            return _invitations(connection, hashes)

    def count_invitations(self) -> tuple[int, int]:
        with self._engine.connect() as connection:
            row = connection.execute(select(func.count(), func.count(INVITATIONS.c.key)).select_from(INVITATIONS)).one()
        return int(row[0]), int(row[1])

    def add_participants(
        self,
        begin: int,
        choose: Callable[[Iterable[Participant], Mapping[str, str]], Sequence[Participant]],
        vouchers: Mapping[str, bytes] = MappingProxyType({}),
        policies: Mapping[str, str] = MappingProxyType({}),
        codes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record participants, in one transaction that no other process has at the same time.

        Args:
            begin: The agent number after all that the caller knows.
            choose: Called with those who were recorded since, from ``begin`` on, and :meth:`invitations` of ``codes``;
                returns who is to be recorded after them. Whoever has not seen all others cannot record anybody: the
                first number would be taken.
            vouchers: What those who show something of an issuer have shown, by their keys.
            policies: What those who say so will not do, in JSON, by their keys.
            codes: Hashes of the invitation codes that those who are recorded use so, by their keys.
        """
        with self._alone(ENROLLING) as connection:
            existing = map(_participant, connection.execute(_PARTICIPANTS_FROM, {"begin": begin}))
            chosen = choose(existing, _invitations(connection, codes.values()))
            for participant in chosen:
                if participant.key in codes:
                    used = {"code": codes[participant.key], "by": bytes.fromhex(participant.key)}
                    connection.execute(_USE_INVITATION, used)
            rows = [(p.first, bytes.fromhex(p.key), p.agents) for p in chosen]
            self._insert_all(connection, PARTICIPANTS, ("first", "key", "agents"), rows)
            voucher_rows = [(p.first, vouchers[p.key]) for p in chosen if p.key in vouchers]
            self._insert_all(connection, VOUCHERS, ("first", "voucher"), voucher_rows)
            policy_rows = [(p.first, policies[p.key]) for p in chosen if p.key in policies]
            self._insert_all(connection, POLICIES, ("first", "policy"), policy_rows)

    def renew_policies(self, policies: Mapping[int, str]) -> None:
        """Replace what participants, by their first agents, will not do, where it has changed."""
        firsts, stored = sorted(policies), dict[int, str]()
        for begin in range(0, len(firsts), 1000):
            condition = POLICIES.c.first.in_(firsts[begin : begin + 1000])
            stored |= {int(first): policy for first, policy in self._all(select(POLICIES).where(condition))}
        changed = [(first, policies[first]) for first in firsts if stored.get(first) != policies[first]]
        if changed:
            with self._alone(ENROLLING) as connection:
                connection.execute(_FORGET_POLICY, [{"at": first} for first, _ in changed])
                self._insert_all(connection, POLICIES, ("first", "policy"), changed)

    def policies(self) -> list[tuple[str, int]]:
        """Return what participants will not do, each with the number of all agents of whom the same is true."""
        query = select(POLICIES.c.policy, func.sum(PARTICIPANTS.c.agents)).join(
            PARTICIPANTS, PARTICIPANTS.c.first == POLICIES.c.first
        )
        return [(text, int(agents)) for text, agents in self._all(query.group_by(POLICIES.c.policy))]

    def participants(self, begin: int = 0) -> Iterator[Participant]:
        return map(_participant, self._stream(_PARTICIPANTS_FROM, {"begin": begin}))

    def vouchers(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Go through what participants below an agent number have shown of issuers, in the order of their numbers."""
        query = select(VOUCHERS.c.first, VOUCHERS.c.voucher).where(VOUCHERS.c.first < end).order_by(VOUCHERS.c.first)
        return ((int(first), bytes(voucher)) for first, voucher in self._stream(query))

    def cohorts(self) -> list[Cohort]:
        rows = self._all(_ALL_COHORTS)
        return [Cohort(int(row.first), int(row.agents), row.seed, int(row.used)) for row in rows]


def _invitations(connection: Connection, hashes: Iterable[str]) -> dict[str, str]:
    digests = list(hashes)
    rows = connection.execute(select(INVITATIONS).where(INVITATIONS.c.sha256.in_(digests))) if digests else ()
    return {row.sha256: "" if row.key is None else row.key.hex() for row in rows}


def _participant(row: Any) -> Participant:
    return Participant(row.key.hex(), row.first, row.agents)
