"""What people contribute, as the curator keeps it: taken once, deletable until the run begins, fixed from then on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from common.core.errors import (
    BadInput,
    BadMessage,
    Conflict,
    Forged,
    NotFound,
    PolicyRefused,
    RunBegun,
    Unauthorized,
)
from common.people.tables.source import TableSource
from common.scenario.agreement import policy_digest
from common.scenario.resolved import ResolvedScenario
from common.service.web.readiness import Check, disk
from common.service.web.tokens import same, token_hash
from common.wire.identity import Identity, Signed, verify
from common.wire.state import durable_key, write_durably
from curator.contributions import fields, sealing
from curator.contributions.messages import Contribution, ContributionReceipt, Offer, Withdrawal
from curator.contributions.store import Gone, Held, Store
from curator.state.copies import CONTRIBUTIONS

FOLDER, OFFER, SEAL_KEY, TOKEN = CONTRIBUTIONS, "offer.json", "hpke.key", "token"
"""In the curator's state directory, and below that."""
KEYS_PER_PLACE = 4
"""Contributors of whom something is remembered, for each place in the sample: also those who have withdrawn."""

log = logging.getLogger("tandem.curator")


def source_of(scenario: ResolvedScenario) -> TableSource:
    """Return the table that people contribute to.

    Raises
    ------
    BadInput
        If the curator's people are no contributors.
    """
    table = scenario.source.table
    if table is None or not table.contributed:
        raise BadInput(
            f"the curator's people of {scenario.name} do not contribute: give source.table contributed: true in the "
            f"place of files"
        )
    return table


def made_offer(scenario: ResolvedScenario, folder: Path, identity: Identity) -> Signed:
    """Return the curator's signed offer for a scenario, the same at every start; its folder belongs to it.

    Parameters
    ----------
    folder
        Of the contributions.

    Raises
    ------
    BadInput
        If the folder belongs to another offer, or the scenario's people do not contribute.
    """
    offer = Offer(
        scenario=scenario.name,
        title=scenario.title,
        policy=policy_digest(scenario),
        table=source_of(scenario),
        people=scenario.curator.n,
        guarantee=scenario.curator.guarantee,
        public_key=sealing.public_half(durable_key(folder / SEAL_KEY)),
    )
    signed = identity.sign(offer.KIND, offer.wire())
    path = folder / OFFER
    if not path.exists():
        write_durably(path, signed.raw(), mode=0o600)
    if path.read_bytes() != signed.raw():
        raise BadInput(
            f"{folder} holds contributions for another scenario, curator or policy: put the scenario back as it was "
            f"when they were given, or collect in a fresh directory"
        )
    return signed


class Collection:
    """The contributions of one curator.

    Parameters
    ----------
    folder
        The curator's state directory, held by this process.
    scenario
        Resolved; its source is a table of contributions.
    identity
        The curator's.
    most
        How many are kept at most.
    token
        What a contributor must say, of which a hash is kept; None: as at the last start.
    begun
        Whether the run has begun.
    clock
        Seconds since 1970.

    Raises
    ------
    BadInput
        As :func:`made_offer`; if no token was ever given.
    """

    def __init__(
        self,
        folder: Path,
        scenario: ResolvedScenario,
        identity: Identity,
        *,
        most: int,
        token: str | None = None,
        begun: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder / FOLDER
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._table = source_of(scenario)
        self.offer = made_offer(scenario, self._folder, identity)
        self._digest = Offer.parse(self.offer.message).fingerprint()
        self._private = durable_key(self._folder / SEAL_KEY)
        self._identity, self._most, self._clock = identity, most, clock
        self._token = self._kept_token(token)
        self._lock = threading.Lock()
        self.begun = begun
        self._store = Store(self._folder)

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def _kept_token(self, token: str | None) -> str:
        path = self._folder / TOKEN
        if token is not None:
            write_durably(path, token_hash(token).encode(), mode=0o600)
        return path.read_text() if path.exists() else ""

    @property
    def curator(self) -> str:
        """The curator's key, which contributors pin."""
        return self._identity.public

    @property
    def has_token(self) -> bool:
        """Whether anybody can say the token."""
        return bool(self._token)

    @property
    def largest(self) -> int:
        """Bytes of the largest contribution in JSON."""
        return (fields.length(self._table) + sealing.OVERHEAD + 2) // 3 * 4 + (1 << 10)

    def admits(self, token: str) -> bool:
        """Tell whether somebody says the token."""
        return bool(self._token) and same(token_hash(token), self._token)

    def counts(self) -> tuple[int, int]:
        """Return how many are kept, and how many were withdrawn."""
        return self._store.counts()

    def lacks(self) -> dict[str, Check]:
        """Return what it needs to take a contribution, as checks of readiness."""

        def writable() -> str | None:
            self._store.check_writable()
            return None

        return {"disk": lambda: disk(self._folder), "contributions": writable}

    # Messages -------------------------------------------------------------------------------------------------------

    def accept(self, signed: Signed) -> Signed:
        """Keep a contribution; the same again gets the same receipt, also once the run has begun.

        The record is opened to see that it is one, and kept as it was sealed.

        Raises
        ------
        Forged
            If its signature does not verify.
        BadMessage
            If it is for another curator or offer, or cannot be opened.
        BadData
            If what was sealed is no record of the table; says no more.
        Conflict
            If this contributor has contributed another one or has withdrawn, or somebody else's has this name.
        RunBegun
            If the run has begun.
        PolicyRefused
            If there are as many as are taken.
        CannotWrite
            If the disk does not take it: to be sent again.
        """
        message = Contribution.parse(verify(signed, Contribution.KIND))
        self._check_address(message.curator, message.offer)
        with self._lock:
            held = self._store.find(signed.key)
            if held is not None and held.envelope == signed:
                return self._receipt(held)
            if held is not None:
                raise Conflict("this contributor has contributed already: a record can be withdrawn, not exchanged")
            if self._store.gone(signed.key) is not None:
                raise Conflict("this contributor has withdrawn: who has a change of mind contributes with a fresh key")
            self._check_open()
            if self._store.named(message.contribution) is not None:
                raise Conflict("another contribution has this name")
            fields.read(sealing.opened(message, signed.key, self._private), self._table)
            self._check_room()
            held = self._store.add(signed, message.contribution, int(self._clock()))
            log.info("contribution %s is kept", message.contribution)
            return self._receipt(held)

    def withdraw(self, signed: Signed, *, admitted: bool) -> Signed:
        """Delete a contribution; the same again gets the same receipt, also once the run has begun.

        From then on nothing is taken of its contributor, so that nobody who kept the sealed record can bring it back.

        Parameters
        ----------
        admitted
            Whether the token was said: then also one that has not come yet is withdrawn.

        Raises
        ------
        Forged
            If its signature does not verify, or another key has signed the contribution.
        BadMessage
            If it is for another curator or offer.
        Conflict
            If this contributor's contribution has another name.
        NotFound
            If the run has begun without this contributor.
        RunBegun
            If the run has begun with this contribution.
        Unauthorized
            If there is no such contribution, and the token was not said.
        PolicyRefused
            If too many contributors have withdrawn.
        CannotWrite
            If the disk does not take it: to be sent again.
        """
        message = Withdrawal.parse(verify(signed, Withdrawal.KIND))
        self._check_address(message.curator, message.offer)
        with self._lock:
            gone = self._store.gone(signed.key)
            held = self._store.find(signed.key)
            named = message.contribution if gone is None else gone.contribution
            named = named if held is None else Contribution.parse(held.envelope.message).contribution
            if named != message.contribution:
                raise Conflict("this contributor's contribution has another name")
            if gone is not None:
                return self._farewell(signed.key, gone)
            if held is None:
                self._check_missing(message.contribution, admitted=admitted)
            self._check_open()
            gone = self._store.withdraw(signed.key, message.contribution, int(self._clock()))
            log.info("contribution %s is withdrawn", message.contribution)
            return self._farewell(signed.key, gone)

    def _check_address(self, curator: str, offer: str) -> None:
        if (curator, offer) != (self._identity.public, self._digest):
            raise BadMessage(
                f"this is for the offer {offer[:16]}... of curator {curator[:16]}..., here is {self._digest[:16]}... "
                f"of {self._identity.public[:16]}..."
            )

    def _check_open(self) -> None:
        if self.begun:
            raise RunBegun(
                "the run has begun, and with it the sample is fixed: nothing more is taken, and nobody can be taken out"
            )

    def _check_room(self) -> None:
        kept, gone = self._store.counts()
        if kept >= self._most or kept + gone >= KEYS_PER_PLACE * self._most:
            raise PolicyRefused("this curator takes no more contributions")

    def _check_missing(self, contribution: str, *, admitted: bool) -> None:
        if self._store.named(contribution) is not None:
            raise Forged("another key has signed this contribution: nobody else can withdraw it")
        if self.begun:
            raise NotFound("this curator holds no contribution of this key, and its run has begun")
        if not admitted:
            raise Unauthorized("this curator holds no such contribution; to withdraw one that is on its way, the token")
        if sum(self._store.counts()) >= KEYS_PER_PLACE * self._most:
            raise PolicyRefused("this curator remembers no more withdrawals")

    def _receipt(self, held: Held) -> Signed:
        return self._said(held.envelope.key, held.envelope.message["contribution"], "kept", held.time)

    def _farewell(self, contributor: str, gone: Gone) -> Signed:
        return self._said(contributor, gone.contribution, "withdrawn", gone.time)

    def _said(self, contributor: str, contribution: str, status: str, when: int) -> Signed:
        tree = {
            "offer": self._digest,
            "contributor": contributor,
            "contribution": contribution,
            "status": status,
            "time": when,
        }
        receipt = ContributionReceipt.parse(tree)
        return self._identity.sign(receipt.KIND, receipt.wire())
