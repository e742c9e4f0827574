"""Who may enrol, and who is enrolled: in memory, and on disk before anybody hears of it.

Any number of processes enrol on one database. They number one after the other, each after it has read whom the others
numbered; so every process has the same list, if perhaps not yet its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

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
        outcomes: list[messages.Enrolment | TandemError] = []
        for (signed, token), checked in zip(
            requests, payloads([signed for signed, _ in requests], messages.Enrolment.KIND), strict=True
        ):
            try:
                if isinstance(checked, Forged):
                    raise checked
                wanted = messages.Enrolment.parse(signed.message)
                self._admit(wanted.agents, token)
                outcomes.append(wanted)
            except TandemError as error:
                outcomes.append(error)
        keys = [signed.key for signed, _ in requests]
        wishes: dict[str, int] = {}
        for key, wish in zip(keys, outcomes, strict=True):
            if isinstance(wish, messages.Enrolment) and self.roster.position(key) is None:
                wishes.setdefault(key, wish.agents)
        try:
            self._number(wishes)
        except (SQLAlchemyError, OSError):
            return [CannotWrite(_LATER) for _ in requests]
        return [
            wish if isinstance(wish, TandemError) else self._confirmation(key, wish.agents)
            for key, wish in zip(keys, outcomes, strict=True)
        ]

    def refresh(self) -> None:
        """Read from the store whom other processes have enrolled.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the store cannot be read at present.
        """
        with self._lock:
            self._enter(self._store.participants(self.roster.agents))

    def _number(self, wishes: dict[str, int]) -> None:
        """Enrol whom nobody has enrolled yet, given how many agents each key brings; leaves out who finds no number."""
        fresh: list[Participant] = []

        def choose(others: Iterable[Participant]) -> list[Participant]:
            self._enter(others)
            after = self.roster.agents
            for key, agents in wishes.items():
                if self.roster.position(key) is None and after + agents <= messages.MAX_AGENTS:
                    fresh.append(Participant(key, after, agents))
                    after += agents
            return fresh

        if wishes:
            with self._lock:
                self._store.add_participants(self.roster.agents, choose)
                self._enter(fresh)

    def _enter(self, participants: Iterable[Participant]) -> None:
        for participant in participants:
            self.roster.add(participant)

    def _admit(self, agents: int, token: str) -> None:
        if agents > 1 or ("individual", token_hash(token)) not in self._tokens:
            self.authorize("enrolment", token)

    def _confirmation(self, key: str, agents: int) -> bytes | TandemError:
        participant = self.roster.find(key)
        if participant is None:
            enrolled = self.roster.agents
            return Refused(f"a referee numbers at most {messages.MAX_AGENTS} agents, {enrolled} are enrolled already")
        if participant.agents != agents:
            return Conflict(f"this key is enrolled with {participant.agents} agents, not {agents}")
        reply = messages.Enrolled(participant=participant.key, first=participant.first, agents=participant.agents)
        return self._identity.envelope(reply.KIND, canonical.encode(reply.wire()))
