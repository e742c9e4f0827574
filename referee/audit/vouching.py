"""Who vouches for the people of a run, by what the run folder holds: without it, they are the referee's own word."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from typing import Any

import numpy as np

from common.core.arrays import Indices
from common.core.errors import AuditFailed, NotVouched
from common.wire.vouching import Grant, IssuerKey, issuer_of
from referee.audit.place import Place
from referee.collection.enrolment.vouching import grant_of, unpacked, vouched
from referee.collection.ordering.roster import Roster


@dataclass(frozen=True)
class GrantedHost:
    """A host for which an issuer vouches: whose people they are, how many it brought, and for how many at most."""

    name: str
    people: int
    most: int


@dataclass(frozen=True)
class ByIssuer:
    """For whom one issuer vouches.

    Attributes
    ----------
    pinned
        Whether its keys were known from elsewhere.
    individuals
        How many, each by a credential for its own key.
    hosts
        Each by a grant.
    """

    pinned: bool
    individuals: int = 0
    hosts: tuple[GrantedHost, ...] = ()


@dataclass(frozen=True)
class Vouching:
    """Who vouches for those who were enrolled when a run began.

    Attributes
    ----------
    issuers
        By their fingerprints.
    individuals, hosts
        For whom nobody vouches but the referee, or the host itself: how many individuals, and the people of each host.
    strangers
        Answers of people for whom no issuer vouches whose keys were known from elsewhere.
    """

    issuers: dict[str, ByIssuer] = field(default_factory=dict)
    individuals: int = 0
    hosts: tuple[int, ...] = ()
    strangers: int = 0


class Vouchers:
    """What participants have shown of issuers, checked.

    Parameters
    ----------
    roster
        Everybody who was enrolled when the run began.
    said
        What the transcript's first entry says of vouchers, if anything.
    file
        The file of vouchers; None where there is none.
    pinned
        Keys of issuers as known from elsewhere.
    place
        Where the audit stands.

    Raises
    ------
    AuditFailed
        If the file is another one than was signed; if a credential was not signed for the key of the individual that
        has it, or a grant not for a host with so many people: an honest referee takes none of these.
    """

    def __init__(
        self,
        roster: Roster,
        said: Mapping[str, Any] | None,
        file: BufferedIOBase | None,
        pinned: Sequence[IssuerKey],
        place: Place,
    ) -> None:
        place.words = "who vouches for participants"
        self._roster = roster
        self._pinned = {issuer.fingerprint() for issuer in pinned}
        self._by = np.zeros(len(roster), dtype=np.int64)  # 1 + the issuer's place; 0: nobody vouches
        self._grants: dict[int, Grant] = {}
        named = [IssuerKey.parse(wire) for wire in said["issuers"]] if said is not None else []
        self._issuers = list({issuer.fingerprint(): issuer for issuer in (*pinned, *named)}.values())
        if said is not None:
            self._check(said, io.BytesIO() if file is None else file, place)

    def _check(self, said: Mapping[str, Any], file: BufferedIOBase, place: Place) -> None:
        if hashlib.file_digest(file, "sha256").hexdigest() != said["sha256"]:
            raise place.failed("the file of vouchers is not the one that was signed")
        file.seek(0)
        firsts, count = self._roster.firsts, 0
        for first, voucher in unpacked(file):
            count += 1
            position = int(np.searchsorted(firsts, first))
            if position == len(self._roster) or firsts[position] != first:
                raise place.failed(f"something is shown for agent {first}, with which no participant begins")
            if issuer_of(voucher, self._issuers) is None:
                continue  # of an issuer that the referee had once, and nobody here knows: it counts for nothing
            participant = self._roster.at(position)
            try:
                issuer = vouched(voucher, participant.key, participant.agents, self._issuers)
            except NotVouched as error:
                raise place.failed(f"for {participant.key[:16]}... nobody vouches: {error.detail}") from None
            self._by[position] = 1 + self._issuers.index(issuer)
            if (grant := grant_of(voucher)) is not None:
                self._grants[position] = grant
        if count != said["count"]:
            raise AuditFailed(f"the transcript speaks of {said['count']} vouchers, there are {count}")

    def found(self, answers: Indices) -> Vouching:
        """Return who vouches for whom, given how many answers came from each participant."""
        people = self._roster.speaks_for()
        issuers, known = {}, np.zeros(len(people), dtype=np.bool_)
        for place, issuer in enumerate(self._issuers):
            own = self._by == place + 1
            fingerprint = issuer.fingerprint()
            if own.any() or fingerprint in self._pinned:
                hosts = [p for p in np.flatnonzero(own).tolist() if p in self._grants]
                grants = ((self._grants[p], int(people[p])) for p in hosts)
                granted = tuple(GrantedHost(grant.name, brought, grant.people) for grant, brought in grants)
                issuers[fingerprint] = ByIssuer(fingerprint in self._pinned, int(own.sum()) - len(hosts), granted)
            if fingerprint in self._pinned:
                known |= own
        alone = people[self._by == 0]
        return Vouching(
            issuers,
            individuals=int((alone == 1).sum()),
            hosts=tuple(sorted((int(n) for n in alone[alone > 1]), reverse=True)),
            strangers=int(answers[~known].sum()),
        )
