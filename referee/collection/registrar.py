"""Who may enrol, and who is enrolled: in memory, and on disk before anybody hears of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from common.core import canonical
from common.core.errors import CannotWrite, Conflict, Forged, Refused, TandemError, Unauthorized
from common.service.app import token_hash
from common.wire import messages
from common.wire.identity import Identity, Signed
from referee.collection.reading import payloads
from referee.collection.roster import Roster
from referee.state.store import Store
from referee.state.values import Participant

_LATER = "nobody can be enrolled at present: ask again"


@dataclass(frozen=True)
class Caps:
    """How many may enrol.

    Attributes
    ----------
    individuals
        Keys of one agent each that the tokens admit together.
    hosts
        Keys of several agents each.
    people
        Agents of one host.
    """

    individuals: int = 10_000_000
    hosts: int = 1_000
    people: int = 100_000_000


USUAL = Caps()


class Registrar:
    """Takes enrolments.

    Parameters
    ----------
    store
        Durable memory.
    identity
        Signs what participants are told.
    caps
        How many it admits.
    """

    def __init__(self, store: Store, identity: Identity, caps: Caps = USUAL) -> None:
        self.caps = caps
        self._store = store
        self._identity = identity
        self._lock = threading.Lock()
        self._tokens = store.tokens()
        self._doubtful = False
        self.roster = Roster(store.participants())

    def allow(self, purpose: str, token: str) -> None:
        """Accept this token, and no other, for a purpose; only its hash is kept."""
        self._store.allow_token(purpose, token_hash(token))
        self._tokens = self._store.tokens()

    def authorize(self, purpose: str, token: str) -> None:
        """Check a token.

        Raises
        ------
        Unauthorized
            If it was not allowed for this purpose.
        """
        if (purpose, token_hash(token)) not in self._tokens:
            raise Unauthorized(f"this needs a valid {purpose} token (Authorization: Bearer ...)")

    def admits(self, token: str) -> None:
        """Check that a token admits participants of some kind.

        Raises
        ------
        Unauthorized
            If it does not.
        """
        if ("individual", token_hash(token)) not in self._tokens:
            self.authorize("enrolment", token)

    def enrol(self, requests: Sequence[tuple[Signed, str]]) -> list[bytes | TandemError]:
        """Enrol participants, each with its token; who is enrolled already gets the numbers it has.

        Returns
        -------
        For each the signed answer, in JSON, or the problem:

        Forged, BadMessage
            If it is no signed enrolment.
        Unauthorized
            If the token admits no such participant. A token for individuals admits one agent; how many a host brings is
            its own word, so a host needs the other one.
        Conflict
            If the key is enrolled with another number of agents.
        Refused
            If there would be more agents than numbers, or more participants or agents of one than the caps allow.
        CannotWrite
            If nothing can be stored at present; for all of them, then.
        """
        outcomes: list[Participant | TandemError] = []
        fresh: list[Participant] = []
        with self._lock:
            try:
                self._catch_up()
            except (SQLAlchemyError, OSError):
                return [CannotWrite(_LATER) for _ in requests]
            mine: dict[str, Participant] = {}
            after, hosts = self.roster.agents, self.roster.hosts
            for (signed, token), checked in zip(
                requests, payloads([signed for signed, _ in requests], messages.Enrolment.KIND), strict=True
            ):
                try:
                    if isinstance(checked, Forged):
                        raise checked
                    wanted = messages.Enrolment.parse(signed.message)
                    self._admit(wanted.agents, token)
                    known = mine.get(signed.key) or self.roster.find(signed.key)
                    if known is None:
                        self._hold_caps(wanted.agents, hosts, len(self.roster) + len(fresh) - hosts)
                        known = _numbered(signed.key, after, wanted.agents)
                        hosts += wanted.agents > 1
                        fresh.append(known)
                        mine[signed.key] = known
                        after += wanted.agents
                    elif known.agents != wanted.agents:
                        raise Conflict(f"this key is enrolled with {known.agents} agents, not {wanted.agents}")
                    outcomes.append(known)
                except TandemError as error:
                    outcomes.append(error)
            if fresh:
                try:
                    self._store.add_participants(fresh)
                except (SQLAlchemyError, OSError):
                    self._doubtful = True
                    return [CannotWrite(_LATER) for _ in requests]
                for participant in fresh:
                    self.roster.add(participant)
        return [found if isinstance(found, TandemError) else self._confirmation(found) for found in outcomes]

    def _catch_up(self) -> None:
        """After an enrolment of which it is not known whether it was stored, take from the store who is there."""
        if self._doubtful:
            for participant in self._store.participants(self.roster.agents):
                self.roster.add(participant)
            self._doubtful = False

    def _admit(self, agents: int, token: str) -> None:
        if agents > 1 or ("individual", token_hash(token)) not in self._tokens:
            self.authorize("enrolment", token)

    def _hold_caps(self, agents: int, hosts: int, individuals: int) -> None:
        if agents > self.caps.people:
            raise Refused(
                f"a host may have at most {self.caps.people:,} people here, found {agents:,}: spread them over several "
                "hosts, or start the referee with a larger --people-per-host"
            )
        if agents > 1 and hosts >= self.caps.hosts:
            raise Refused(f"at most {self.caps.hosts:,} hosts may enrol here (referee serve --max-hosts)")
        if agents == 1 and individuals >= self.caps.individuals:
            raise Refused(
                f"at most {self.caps.individuals:,} individuals may enrol here (referee serve --max-individuals)"
            )

    def enrolled(self) -> dict[str, int]:
        """Return how many are enrolled, of each kind, beside the caps."""
        roster = self.roster
        return {
            "individuals": len(roster) - roster.hosts,
            "hosts": roster.hosts,
            "max_individuals": self.caps.individuals,
            "max_hosts": self.caps.hosts,
            "max_people_per_host": self.caps.people,
        }

    def _confirmation(self, participant: Participant) -> bytes:
        reply = messages.Enrolled(participant=participant.key, first=participant.first, agents=participant.agents)
        return self._identity.envelope(reply.KIND, canonical.encode(reply.wire()))


def _numbered(key: str, first: int, agents: int) -> Participant:
    if first + agents > messages.MAX_AGENTS:
        raise Refused(f"a referee numbers at most {messages.MAX_AGENTS} agents, {first} are enrolled already")
    return Participant(key, first, agents)
