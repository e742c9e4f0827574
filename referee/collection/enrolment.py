"""Enrolment: who may enrol, which issuer vouches for them, and whether enrolled agents accept what a run asks."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from common.core import canonical, errors
from common.crypto.identity import Identity, Signed
from common.crypto.vouching import Credential, Grant, IssuerKey, check_credential, check_grant, read_voucher, stored
from common.net import messages
from common.net.messages import AgentPolicy, AnySigned, Enrolment, parse_payload
from common.net.tokens import invitation, invitation_hash, is_invitation, token_hash
from common.scenario.scenario import ResolvedScenario
from referee.collection.judging import verified_payload
from referee.collection.order import Order
from referee.collection.roster import Roster
from referee.store import RefereeStore
from referee.tables import Participant

_LATER = "cannot enrol at present: ask again"


@dataclass(frozen=True)
class Caps:
    """How many may enrol: ``individuals`` of one agent each, and ``hosts`` of several, at most ``people`` agents each.

    All participants share one token, so a holder can enrol any number of keys up to the caps; where an issuer vouches
    for each person, the number of people that it knows is the bound.
    """

    individuals: int = 10_000_000
    hosts: int = 1_000
    people: int = 100_000_000


USUAL = Caps()
UNVOUCHED = 100_000  # individuals that a token admits by default where there is no issuer


class Registrar:
    """Takes enrolments; raises :class:`~common.core.errors.Unauthorized` if a token does not allow a request.

    One of ``issuers`` must vouch for each participant that enrols from now on; by default none needs to.
    """

    def __init__(
        self, store: RefereeStore, identity: Identity, caps: Caps = USUAL, issuers: Sequence[IssuerKey] = ()
    ) -> None:
        self.caps = caps
        self.issuers = tuple(issuers)
        self._store = store
        self._identity = identity
        self._lock = threading.Lock()
        self._tokens = store.tokens()
        self.roster = Roster(store.participants())

    def allow(self, purpose: str, token: str | None) -> None:
        """Accept this token, and no other, for a purpose, and keep only its hash. With None, accept no token for it.

        ``enrolment`` admits hosts and individuals, ``individual`` only individuals, ``operator`` creates runs.
        """
        self._store.allow_token(purpose, None if token is None else token_hash(token))
        self._tokens = self._store.tokens()

    def authorize(self, purpose: str, token: str) -> None:
        if (purpose, token_hash(token)) not in self._tokens:
            raise errors.Unauthorized(
                f"this needs a valid {purpose} token (Authorization: Bearer ...): it is missing, wrong, or was "
                f"replaced by another; take the TANDEM_{purpose.upper()}_TOKEN with which the referee was last started"
            )

    def admits(self, token: str, agents: int = 1) -> None:
        """Check that a token admits a participant: the one for individuals admits one agent; a host needs the other."""
        if agents > 1 or ("individual", token_hash(token)) not in self._tokens:
            self.authorize("enrolment", token)

    def may_enrol(self, token: str) -> None:
        """Check that a token admits a participant, or may be an invitation code."""
        if not is_invitation(token):
            self.admits(token)

    def may_look(self, token: str) -> None:
        """Check that a token allows reading the metrics: the one for metrics alone, or the operator's."""
        if ("metrics", token_hash(token)) not in self._tokens:
            self.authorize("operator", token)

    def enrol(self, requests: Sequence[tuple[AnySigned, str]]) -> list[bytes | errors.TandemError]:
        """Enrol participants, each with its token; one that is enrolled already gets the agent numbers it has.

        A participant's policy is stored, and a later one replaces it. An individual may present an invitation code
        instead of a token: its key is the only one that can ever enrol with that code.

        Returns for each the signed answer, in JSON, or the problem: Forged or BadMessage if it is no signed enrolment.
        Unauthorized if the token does not admit the participant (:meth:`admits`) and is no invitation code.
        InvitationUsed if it is the invitation code of another key. NotVouched if there are issuers and none vouches for
        it; an enrolled participant need not show that again. Conflict if the key is enrolled with another number of
        agents. Refused if there would be more agents than numbers, or more participants, or agents of one participant,
        than the caps allow. CannotWrite, for all of them, if nothing can be stored at present.
        """
        outcomes: list[messages.Enrolment | errors.TandemError] = []
        vouchers: dict[str, bytes] = {}
        policies: dict[str, str] = {}
        codes: dict[str, str] = {}
        try:
            invitations = self._store.invitations(self._codes_among({token for _, token in requests}))
        except (SQLAlchemyError, OSError):
            return [errors.CannotWrite(_LATER) for _ in requests]
        for signed, token in requests:
            try:
                verified_payload(signed, messages.Enrolment.KIND)
                enrolment = parse_payload(signed, messages.Enrolment)
                code = self._code(token, signed.key, enrolment.agents, invitations)
                if code is not None:
                    codes.setdefault(signed.key, code)
                if self.issuers and (enrolment.again or self.roster.position(signed.key) is None):
                    vouchers.setdefault(signed.key, checked_voucher(enrolment, signed.key, self.issuers))
                if enrolment.policy is not None:
                    policies[signed.key] = canonical.encode(enrolment.policy.wire()).decode()
                outcomes.append(enrolment)
            except errors.TandemError as error:
                outcomes.append(error)
        keys = [signed.key for signed, _ in requests]
        try:
            self._number(keys, outcomes, vouchers, policies, codes)
        except (SQLAlchemyError, OSError):
            return [errors.CannotWrite(_LATER) for _ in requests]
        replies = [
            wish if isinstance(wish, errors.TandemError) else self._confirmation(key, wish.agents)
            for key, wish in zip(keys, outcomes, strict=True)
        ]
        kind = messages.Enrolled.KIND
        return [self._identity.envelope(kind, each) if isinstance(each, bytes) else each for each in replies]

    def refresh(self) -> None:
        with self._lock:
            self._tokens = self._store.tokens()
            self.roster.extend(self._store.participants(self.roster.agents))

    def knows(self, key: str) -> bool:
        """Return whether a key is enrolled, by this process or, according to the store, by another one."""
        if self.roster.position(key) is None:
            self.refresh()
        return self.roster.position(key) is not None

    def _is_known(self, token: str) -> bool:
        sha256 = token_hash(token)
        return ("individual", sha256) in self._tokens or ("enrolment", sha256) in self._tokens

    def _codes_among(self, tokens: Iterable[str]) -> list[str]:
        return [invitation_hash(token) for token in tokens if is_invitation(token) and not self._is_known(token)]

    def _code(self, token: str, key: str, agents: int, invitations: Mapping[str, str]) -> str | None:
        """Return the hash of the invitation code that admits a participant; None if a shared token does."""
        if not is_invitation(token) or self._is_known(token):
            self.admits(token, agents)
            return None
        code = invitation_hash(token)
        if code not in invitations:
            raise errors.Unauthorized("this referee knows no such invitation code: look for a mistyped character")
        if agents > 1:
            raise errors.Unauthorized(
                f"an invitation code is for one person, the host brings {agents:,}: it needs the enrolment token"
            )
        if invitations[code] not in ("", key):
            raise invitation_used()
        return code

    def _number(
        self,
        keys: Sequence[str],
        outcomes: list[messages.Enrolment | errors.TandemError],
        vouchers: dict[str, bytes],
        policies: dict[str, str],
        codes: dict[str, str],
    ) -> None:
        """Enrol the participants that are new, except where no number is left, and renew the policies of the others.

        If several keys present one invitation code, the first one is enrolled.
        """
        wishes: dict[str, int] = {}
        again: dict[str, int] = {}
        renewed: dict[int, str] = {}
        fresh: list[Participant] = []
        for key, wish in zip(keys, outcomes, strict=True):
            if isinstance(wish, messages.Enrolment):
                participant, place = self.roster.find(key), self._used_place(key, wish)
                if place is not None:
                    again[key] = place
                if participant is None or place is not None:
                    wishes.setdefault(key, wish.agents)
                if participant is not None and participant.agents == wish.agents and key in policies:
                    renewed |= {self.roster.before(place): policies[key] for place in self.roster.places(key)}

        late: set[str] = set()  # keys whose invitation code another key has used meanwhile

        def choose(participants: Iterable[Participant], invitations: Mapping[str, str]) -> list[Participant]:
            self.roster.extend(participants)
            holders = dict(invitations)
            after, hosts = self.roster.agents, self.roster.hosts
            individuals = self.roster.individuals
            for key, agents in wishes.items():
                fits = key in again or self._beyond(agents, hosts, individuals) is None
                code = codes.get(key)
                if code is not None and holders[code] not in ("", key):
                    late.add(key)
                elif after + agents <= messages.MAX_AGENTS and fits and self.roster.position(key) == again.get(key):
                    if code is not None:
                        holders[code] = key
                    fresh.append(Participant(key, after, agents))
                    after += agents
                    hosts += agents > 1
                    individuals += agents == 1 and key not in again
            return fresh

        if wishes:
            with self._lock:
                self._store.add_participants(self.roster.agents, choose, vouchers, policies, codes)
                self.roster.extend(fresh)
            outcomes[:] = [invitation_used() if key in late else each for key, each in zip(keys, outcomes, strict=True)]
        self._store.renew_policies(renewed)

    def _used_place(self, key: str, wish: messages.Enrolment) -> int | None:
        """Return the newest place of an individual that wants to be asked again, if it was asked at that place.

        Only then does it get a further place, so no run finds two places of one key that have not been asked.
        """
        place = self.roster.position(key)
        if not wish.again or wish.agents > 1 or place is None or not self.roster.alone(place):
            return None
        number = self.roster.before(place)
        cohort = next((c for c in self._store.cohorts() if c.first <= number < c.first + c.agents), None)
        if cohort is None:
            return None
        position = Order(cohort.seed, cohort.agents).position(number - cohort.first)
        return place if position < cohort.used else None

    def _beyond(self, agents: int, hosts: int, individuals: int) -> str | None:
        if agents > self.caps.people:
            return (
                f"a host may have at most {self.caps.people:,} people here, found {agents:,}: spread them over several "
                "hosts, or start the referee with a larger --people-per-host"
            )
        if agents > 1 and hosts >= self.caps.hosts:
            return f"at most {self.caps.hosts:,} hosts may enrol here (referee serve --max-hosts)"
        if agents == 1 and individuals >= self.caps.individuals:
            return (
                f"at most {self.caps.individuals:,} individuals may enrol here, since one token admits them all: start "
                "the referee with a larger --max-individuals, or have an issuer vouch for each person (--issuer)"
            )
        return None

    def policies(self) -> list[tuple[messages.AgentPolicy, int]]:
        return [(messages.AgentPolicy.parse(json.loads(text)), agents) for text, agents in self._store.policies()]

    def vouched(self, agents: int) -> dict[str, Any] | None:
        """Return a transcript's record of the vouchers for the first ``agents`` agents; None without any issuer."""
        digest, count = hashlib.sha256(), 0
        for piece in packed(self._store.vouchers(agents)):
            digest.update(piece)
            count += 1
        if not count and not self.issuers:
            return None
        return {"issuers": [issuer.wire() for issuer in self.issuers], "count": count, "sha256": digest.hexdigest()}

    def enrolled(self) -> dict[str, int]:
        roster = self.roster
        return {
            "individuals": roster.individuals,
            "hosts": roster.hosts,
            "max_individuals": self.caps.individuals,
            "max_hosts": self.caps.hosts,
            "max_people_per_host": self.caps.people,
        }

    def _confirmation(self, key: str, agents: int) -> bytes | errors.TandemError:
        """Return the confirmation of an enrolment, in canonical JSON, or why the participant is not enrolled."""
        participant = self.roster.find(key)
        if participant is None:
            beyond = self._beyond(agents, self.roster.hosts, self.roster.individuals)
            most = f"a referee numbers at most {messages.MAX_AGENTS} agents, {self.roster.agents} are enrolled already"
            return errors.Refused(beyond or most)
        if participant.agents != agents:
            return errors.Conflict(f"this key is enrolled with {participant.agents} agents, not {agents}")
        # Formatted directly, as canonical JSON of valid fields, because there are millions of confirmations.
        confirmation = f'{{"agents":{agents},"first":{participant.first},"participant":"{key}"}}'
        return confirmation.encode("ascii")


def create_invitations(store: RefereeStore, count: int) -> list[str]:
    """Create and return ``count`` invitation codes; only their hashes are stored, so they cannot be returned again."""
    codes = [invitation() for _ in range(count)]
    store.invite(map(invitation_hash, codes))
    return codes


def invitation_used() -> errors.InvitationUsed:
    """Return the refusal of an agent that presents another agent's invitation code."""
    return errors.InvitationUsed(
        "an agent with another key has enrolled with this invitation code, and each code is good for one agent. If "
        "that agent was yours, go on with its state: its state directory, or the browser in which it enrolled. If the "
        "state is lost, so is what the agent knew: whether it has answered, and what that cost. The person who "
        "invited you decides whether you get another code, with which you might answer a second time"
    )


_HEAD = struct.Struct("<QH")
MAX_VOUCHER = (1 << 16) - 1


def vouched(voucher: Credential | Signed, key: str, agents: int, issuers: Sequence[IssuerKey]) -> IssuerKey:
    """Return the issuer that vouches for a participant by its voucher; enrolment and audit both use this check.

    NotVouched if none of these issuers does.
    """
    if isinstance(voucher, Signed):
        return check_grant(voucher, key, agents, issuers)[0]
    if agents != 1:
        raise errors.NotVouched(f"a credential is for one person, the host brings {agents:,}: it needs a grant")
    return check_credential(voucher, key, issuers)


def checked_voucher(enrolment: Enrolment, key: str, issuers: Sequence[IssuerKey]) -> bytes:
    """Verify the voucher of an enrolment and return it in the form that is stored; NotVouched if it is not valid."""
    voucher = enrolment.credential if enrolment.credential is not None else enrolment.grant
    if voucher is None:
        what = "credential (local-agent credential)" if enrolment.agents == 1 else "grant (local-agent host --grant)"
        raise errors.NotVouched(
            f"an issuer must vouch for each participant of this referee: get a {what} of one of its issuers"
        )
    vouched(voucher, key, enrolment.agents, issuers)
    encoded = stored(voucher)
    if len(encoded) > MAX_VOUCHER:
        raise errors.BadMessage(f"a grant has at most {MAX_VOUCHER:,} bytes")
    return encoded


def grant_of(voucher: Credential | Signed) -> Grant | None:
    """Return the grant in a host's voucher; None for a person's credential, which holds none."""
    return Grant.parse(voucher.message) if isinstance(voucher, Signed) else None


def packed(vouchers: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield the file of vouchers in pieces, given pairs of the first agent that a voucher is for, and the voucher."""
    for first, voucher in vouchers:
        yield _HEAD.pack(first, len(voucher)) + voucher


def unpacked(file: BufferedIOBase) -> Iterator[tuple[int, Credential | Signed]]:
    """Yield the vouchers of a file that :func:`packed` has written; BadMessage if it is no such file."""
    last = -1
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise errors.BadMessage("the file of vouchers ends in the middle of one")
        first, length = _HEAD.unpack(head)
        voucher = file.read(length)
        if len(voucher) < length or first <= last:
            raise errors.BadMessage("the file of vouchers ends in the middle of one, or is not in the order of agents")
        last = first
        yield first, read_voucher(voucher)


Policies = Sequence[tuple[AgentPolicy, int]]
"""The policies that agents stated at enrolment, each with the number of agents that stated it."""


def check_accepted(asks: Iterable[str], scenario: ResolvedScenario, policies: Policies, enrolled: int) -> str | None:
    """Refuse a run if no enrolled agent accepts a kind of query; else say how many do not, None if all accept.

    ``asks`` are kinds of queries. Of the ``enrolled`` agents, those without a policy count as accepting everything.
    PolicyRefused names the kind, the reasons for refusing it, and the number of agents for each reason.
    """
    worst = 0, ""
    for kind in sorted(asks):
        refusals: dict[str, int] = {}
        for policy, agents in policies:
            why = _why_not(kind, scenario, policy)
            if why is not None:
                refusals[why] = refusals.get(why, 0) + agents
        refusing, reasons = sum(refusals.values()), ", ".join(f"{agents:,} {why}" for why, agents in refusals.items())
        if 0 < enrolled <= refusing:
            raise errors.PolicyRefused(
                f"no enrolled agent accepts questions of kind {kind!r}, which this run asks: {reasons}; no agent was "
                "asked, and nothing of the curator's budget is spent. Change the scenario, or have agents enrol that "
                "accept it (local-agent answer --accept, --refuse, --epsilon)"
            )
        worst = max(worst, (refusing, f"questions of kind {kind!r}: {reasons}"))
    return f"{worst[0]:,} of {enrolled:,} enrolled agents do not accept {worst[1]}" if worst[0] else None


def _why_not(kind: str, scenario: ResolvedScenario, policy: AgentPolicy) -> str | None:
    left = math.inf if policy.epsilon is None else policy.epsilon, policy.delta or 0.0
    epsilon, delta = scenario.agents.mechanism.affordable(left).guarantee
    if policy.epsilon is not None and (epsilon > policy.epsilon or delta > (policy.delta or 0.0)):
        return f"have a lifetime budget below (epsilon, delta) = ({epsilon:g}, {delta:g}), the cost of an answer"
    if policy.features < scenario.target.dimension:
        return f"have records of fewer than {scenario.target.dimension} features"
    return "refuse this kind" if kind in policy.refuses else None
