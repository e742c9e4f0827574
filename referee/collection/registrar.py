"""Who may enrol, and who is enrolled: in memory, and on disk before anybody hears of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

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


class Registrar:
    """Takes enrolments.

    Parameters
    ----------
    store
        Durable memory.
    identity
        Signs what participants are told.
    """

    def __init__(self, store: Store, identity: Identity) -> None:
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
            If there would be more agents than numbers.
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
            after = self.roster.agents
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
                        known = _numbered(signed.key, after, wanted.agents)
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
        return [found if isinstance(found, TandemError) else self._told(found) for found in outcomes]

    def _catch_up(self) -> None:
        """After an enrolment of which it is not known whether it was stored, take from the store who is there."""
        if self._doubtful:
            for participant in self._store.participants(self.roster.agents):
                self.roster.add(participant)
            self._doubtful = False

    def _admit(self, agents: int, token: str) -> None:
        if agents > 1 or ("individual", token_hash(token)) not in self._tokens:
            self.authorize("enrolment", token)

    def _told(self, participant: Participant) -> bytes:
        reply = messages.Enrolled(participant=participant.key, first=participant.first, agents=participant.agents)
        return self._identity.envelope(reply.KIND, canonical.encode(reply.wire()))


def _numbered(key: str, first: int, agents: int) -> Participant:
    if first + agents > messages.MAX_AGENTS:
        raise Refused(f"a referee numbers at most {messages.MAX_AGENTS} agents, {first} are enrolled already")
    return Participant(key, first, agents)
