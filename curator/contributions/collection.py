"""The curator's store of contributions: accepted once, deletable until the run begins, and fixed from then on."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from common.core import errors
from common.core.durable import durable_key, hold, make_folder, write_durably
from common.core.errors import BadInput, BadMessage, BrokenLedger, Conflict, PolicyRefused, RunBegun
from common.core.folder import read_own
from common.core.values import DIGEST
from common.crypto.identity import Identity, Signed, verify
from common.data.tables import TableSource
from common.lifetime.charging import GivenPeople
from common.log.ledger import KEY, REMEDY, SAMPLE, Journal
from common.net.app import BearerToken, Service, create_app, read_signed, signed_body
from common.net.edge import TINY, Admitted, Guarded, Opening
from common.net.monitoring import Check, disk
from common.net.tokens import invitation, invitation_hash, same, token_hash
from common.scenario.scenario import ResolvedScenario, policy_digest
from curator.contributions import messages
from curator.contributions.messages import Contribution, ContributionReceipt, Offer, Withdrawal
from curator.contributions.store import FILE, SHARED, Store
from curator.ledger import CONTRIBUTIONS

FOLDER, OFFER, SEAL_KEY, TOKEN = CONTRIBUTIONS, "offer.json", "hpke.key", "token"
"""Names in the curator's state directory, and below that."""
MAX_CODE_WITHDRAWALS = 4  # maximum number of stored withdrawals of records given with one invitation code
MAX_TOKEN_WITHDRAWALS = 100_000  # maximum number of stored withdrawals of records given with the shared token: 30 MB

log = logging.getLogger("tandem.curator")


def source_of(scenario: ResolvedScenario) -> TableSource:
    """Return the table that people contribute to."""
    table = scenario.source.table
    if table is None or not table.contributed:
        raise BadInput(
            f"the curator's people of {scenario.name} do not contribute: give source.table contributed: true in the "
            f"place of files"
        )
    return table


class Collection:
    """The contributions of one curator.

    A message whose signature does not verify raises Forged. One for another curator or offer, or that cannot be opened,
    raises BadMessage. After the run has begun, messages raise RunBegun. CannotWrite means a failed write: retry.

    Args:
        token: Token for contributors without an invitation code; only its hash is stored. None: as at the last start.

    Raises:
        BadInput: If the folder belongs to another offer, or the scenario's people do not contribute.
    """

    def __init__(
        self,
        folder: Path,
        scenario: ResolvedScenario,
        identity: Identity,
        *,
        most: int,
        token: str | None = None,
        run_begun: bool = False,
    ) -> None:
        self._folder = folder / FOLDER
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._table = source_of(scenario)
        self._private = durable_key(self._folder / SEAL_KEY)
        self._identity, self._most, self.run_begun = identity, most, run_begun
        self.offer, self._digest = self._signed_offer(scenario)
        token_file = self._folder / TOKEN
        if token is not None:
            write_durably(token_file, token_hash(token).encode(), mode=0o600)
        self._token = read_own(token_file).decode("ascii", "replace") if token_file.exists() else ""
        if token_file.exists() and re.fullmatch(DIGEST, self._token) is None:
            raise BadInput(
                f"{token_file} holds no hash of a contribution token: it was cut off or edited; give the token again, "
                f"in TANDEM_CONTRIBUTION_TOKEN, or delete the file, if people contribute with codes alone"
            )
        self._lock = threading.Lock()
        self._store = Store(self._folder)

    def close(self) -> None:
        self._store.close()

    def _signed_offer(self, scenario: ResolvedScenario) -> tuple[Signed, str]:
        offer = Offer(
            scenario=scenario.name,
            title=scenario.title,
            policy=policy_digest(scenario),
            table=self._table,
            people=scenario.curator.n,
            guarantee=scenario.curator.guarantee,
            public_key=messages.public_key_of(self._private),
        )
        signed, path = self._identity.sign(offer.KIND, offer.wire()), self._folder / OFFER
        if not path.exists():
            write_durably(path, signed.raw(), mode=0o600)
        if read_own(path) != signed.raw():
            raise BadInput(
                f"{self._folder} holds contributions for another scenario, curator or policy: put the scenario back as "
                f"it was when they were given, or collect in a fresh directory"
            )
        return signed, offer.fingerprint()

    @property
    def curator(self) -> str:
        return self._identity.public

    @property
    def admits_people(self) -> bool:
        """Whether there is a token or an invitation code with which a person could contribute."""
        return bool(self._token) or self._store.invitations()[0] > 0

    @property
    def largest(self) -> int:
        return (messages.record_length(self._table) + messages.OVERHEAD + 2) // 3 * 4 + (1 << 10)

    def admits(self, token: str) -> str | None:
        """Return what a token admits by: the hash of an invitation code, or :data:`SHARED`; None if it does not."""
        if self._token and same(token_hash(token), self._token):
            return SHARED
        code = invitation_hash(token)
        return code if self._store.is_invited(code) else None

    def counts(self) -> tuple[int, int]:
        return self._store.counts()

    def readiness_checks(self) -> dict[str, Check]:
        return {"disk": lambda: disk(self._folder), "contributions": self._store.check_writable}

    def accept(self, signed: Signed, code: str = SHARED) -> Signed:
        """Store a contribution; the same one again gets the same receipt, even after the run has begun.

        The record is opened to validate it, and stored as it was sealed. A refused contribution is not stored and uses
        up nothing.

        Args:
            code: What admits its contributor (:meth:`admits`).

        Raises:
            BadData: If the sealed data is no record of the table; the message gives no details.
            Conflict: If this contributor has contributed another record or has withdrawn, or the name is in use.
            PolicyRefused: If the maximum number of contributions, in total or for this code or token, is reached.
        """
        message = Contribution.parse(verify(signed, Contribution.KIND))
        self._check_address(message.curator, message.offer)
        with self._lock:
            stored = self._store.find(signed.key)
            if stored is not None and stored.envelope == signed:
                return self._receipt(signed.key, message.contribution, "kept", stored.time)
            if stored is not None:
                raise Conflict("this contributor has contributed already: a record can be withdrawn, not exchanged")
            if self._store.withdrawal(signed.key) is not None:
                raise Conflict("this contributor has withdrawn: who has a change of mind contributes with a fresh key")
            self._check_open()
            if self._store.find_name(message.contribution) is not None:
                raise Conflict("another contribution has this name")
            messages.read_fields(messages.open_contribution(message, signed.key, self._private), self._table)
            self._check_room(code)
            stored = self._store.add(signed, message.contribution, int(time.time()), code)
            log.info("contribution %s is kept", message.contribution)
            return self._receipt(signed.key, message.contribution, "kept", stored.time)

    def withdraw(self, signed: Signed) -> Signed:
        """Delete a contribution; the same request again gets the same receipt, even after the run has begun.

        From then on no contribution of its contributor is accepted, so a party that kept the sealed record cannot
        restore it. No token is needed, since the key is that of the contribution. Without a contribution of this key,
        nothing is stored.

        Raises:
            Forged: If another key has signed the contribution.
            Conflict: If this contributor's contribution has another name, or was withdrawn.
            NotFound: If there is no contribution of this contributor.
        """
        message = Withdrawal.parse(verify(signed, Withdrawal.KIND))
        self._check_address(message.curator, message.offer)
        with self._lock:
            withdrawn, when = self._store.withdrawal(signed.key) or ("", 0)
            stored = self._store.find(signed.key)
            if stored is not None:
                name = Contribution.parse(stored.envelope.message).contribution
            elif withdrawn:
                name = withdrawn
            elif self._store.find_name(message.contribution) is not None:
                raise errors.Forged("another key has signed this contribution: only that key can withdraw it")
            else:
                raise errors.NotFound("this curator holds no contribution of this key: nothing was deleted or stored")
            if name != message.contribution:
                raise Conflict("this contributor's contribution has another name")
            if not withdrawn:
                self._check_open()
                when = int(time.time())
                self._store.withdraw(signed.key, message.contribution, when)
                log.info("contribution %s is withdrawn", message.contribution)
            return self._receipt(signed.key, message.contribution, "withdrawn", when)

    def _check_address(self, curator: str, offer: str) -> None:
        if (curator, offer) != (self._identity.public, self._digest):
            raise BadMessage(
                f"this is for the offer {offer[:16]}... of curator {curator[:16]}..., here is {self._digest[:16]}... "
                f"of {self._identity.public[:16]}..."
            )

    def _check_open(self) -> None:
        if self.run_begun:
            raise RunBegun(
                "the run has begun, and with it the sample is fixed: nothing more is taken, and nothing is taken out"
            )

    def _check_room(self, code: str) -> None:
        stored = self._store.counts()[0]
        if stored >= self._most:
            raise PolicyRefused(f"this curator takes no more contributions: all of its {self._most:,} places are taken")
        code_uses, count = self._store.counts(code)
        if code != SHARED:
            if code_uses:
                raise PolicyRefused(
                    "a record was given with this invitation code, which is good for one: withdraw that one first, from"
                    " the state directory that has its key, or ask the curator for another code"
                )
            if count >= MAX_CODE_WITHDRAWALS:
                raise PolicyRefused(
                    f"{count} records were given with this invitation code and withdrawn, as many as may be: ask the "
                    f"curator for another code"
                )
            return
        if stored + self._store.invitations()[1] >= self._most:
            raise PolicyRefused("the places that are left belong to those who were invited: contribute with a code")
        if count >= MAX_TOKEN_WITHDRAWALS:
            raise PolicyRefused(
                f"{count:,} records that were given with the shared token were withdrawn, and no more of them are "
                f"remembered: ask the curator for an invitation code"
            )

    def _receipt(self, contributor: str, contribution: str, status: str, when: int) -> Signed:
        fields = {"offer": self._digest, "contributor": contributor, "contribution": contribution}
        receipt = ContributionReceipt.parse({**fields, "status": status, "time": when})
        return self._identity.sign(receipt.KIND, receipt.wire())


def collecting_app(collection: Collection) -> Service:
    """Return the service of a curator that collects, before its run."""
    app = create_app(
        "Tandem curator, collecting",
        "Takes records that are sealed to it, until its run begins.",
        checks=collection.readiness_checks(),
    )
    add_contributions(app, collection)
    return app


def add_contributions(app: Service, collection: Collection) -> None:
    """Add the resources for contributors to a service; the token is checked before a contribution's body is read."""

    async def check(token: str) -> str:
        code = await run_in_threadpool(collection.admits, token)
        if code is None:
            raise errors.Unauthorized(
                "this needs the contribution token or an invitation code (Authorization: Bearer ...), as the curator "
                "hands it out"
            )
        return code

    async def body_limit(opening: Opening) -> Admitted:
        await check(opening.token)
        return Admitted(collection.largest)

    app.edge.limits |= {"/v1/contributions": Guarded(collection.largest, body_limit), "/v1/withdrawals": TINY}

    @app.get(
        "/v1/contributions/offer",
        summary="The offer: what is collected, the key to seal it with, and the promise",
        response_model=Signed,
    )
    def offer() -> Signed:
        return collection.offer

    @app.post(
        "/v1/contributions",
        summary="Contribute a sealed record; idempotent",
        response_model=Signed,
        openapi_extra=signed_body(Contribution.KIND),
    )
    async def contribute(request: Request, token: BearerToken) -> Signed:
        code = await check(token)
        signed = await read_signed(request, Contribution.KIND)
        return await run_in_threadpool(collection.accept, signed, code)

    @app.post(
        "/v1/withdrawals",
        summary="Withdraw a record until the run begins; idempotent",
        response_model=Signed,
        openapi_extra=signed_body(Withdrawal.KIND),
    )
    async def withdraw(request: Request) -> Signed:
        signed = await read_signed(request, Withdrawal.KIND)
        return await run_in_threadpool(collection.withdraw, signed)


if TYPE_CHECKING:
    from common.data.files import Piece
    from common.data.loading import Numbered


CONTRIBUTOR = "contributor's key"  # the column that identifies people who have contributed


@contextmanager
def collecting(
    folder: Path, scenario: ResolvedScenario, *, most: int | None = None, token: str | None = None
) -> Iterator[Collection]:
    """Lock a state directory, and collect contributions in it."""
    source_of(scenario)
    with closing(hold(folder)):
        journal = Journal(folder, {"policy": policy_digest(scenario)})
        if fixed_contributions(journal) is not None:
            raise RunBegun(f"the run of {folder} has begun: collect for another one in a fresh directory")
        limit = scenario.curator.n if most is None else most
        with closing(Collection(folder, scenario, journal.identity, most=limit, token=token)) as collection:
            yield collection


def new_invitations(folder: Path, count: int) -> list[str]:
    """Create ``count`` invitation codes for the collection in a state directory; they cannot be read again later."""
    make_folder(folder, mode=0o700)
    make_folder(folder / FOLDER, mode=0o700)
    codes = [invitation() for _ in range(count)]
    with closing(Store(folder / FOLDER)) as store:
        store.invite([invitation_hash(code) for code in codes])
    return codes


def serving_collection(folder: Path, scenario: ResolvedScenario) -> Collection:
    """Return the collection of a curator that serves: it reports that the run has begun, and repeats receipts."""
    identity = Identity.load_or_create(folder / KEY)
    return Collection(folder, scenario, identity, most=scenario.curator.n, run_begun=True)


def fixed_contributions(journal: Journal) -> str | None:
    """Return the digest of the contributions with which the run has begun; None if it has not."""
    entries = (entry for entry in journal.chain.entries if entry.kind == SAMPLE)
    return next((str(entry.body["contributions"]) for entry in entries), None)


class Contributions:
    """The contributions for a run; BadInput if none were collected, or fewer than the sample needs."""

    def __init__(self, folder: Path, scenario: ResolvedScenario) -> None:
        self._folder, self._scenario = folder / FOLDER, scenario
        if not (self._folder / FILE).exists():
            raise BadInput(
                f"no contributions in {folder}: collect records there first (curator collect), and serve with "
                f"the same --state"
            )
        self._read = ""
        self.people: GivenPeople | None = None
        """The people by their contributors' keys and their fields, after these were read."""

    def __call__(self, table: TableSource, on_piece: Callable[[Piece], None] | None) -> Numbered:
        """Open all contributions; return the records, and their positions instead of row numbers."""
        import polars

        from common.data.files import Piece, typed
        from common.data.loading import Numbered, select_rows

        private = durable_key(self._folder / SEAL_KEY)
        positions, rows, contributors = [], [], []
        with closing(Store(self._folder)) as store:
            self._read = store.digest()
            for stored in store:
                positions.append(stored.position)
                contributors.append(stored.envelope.key)
                try:
                    message = Contribution.parse(verify(stored.envelope, Contribution.KIND))
                    rows.append(
                        messages.read_fields(messages.open_contribution(message, stored.envelope.key, private), table)
                    )
                except (errors.Forged, BadMessage, errors.BadData):
                    raise BrokenLedger(
                        f"contribution {stored.position} in {store.path} cannot be opened: the file or {SEAL_KEY} was "
                        f"changed; put both back from a copy"
                    ) from None
        if len(rows) < self._scenario.curator.n:
            raise BadInput(
                f"{self._scenario.curator.n} people are wanted, and fewer have contributed: go on collecting, or ask "
                f"for fewer in a fresh directory (who has contributed has agreed to this number)"
            )
        columns = {name: [row[name] for row in rows] for name in sorted(table.columns)}
        fields = {name: texts for name, texts in columns.items() if name not in (table.label.column, CONTRIBUTOR)}
        self.people = GivenPeople(polars.DataFrame({CONTRIBUTOR: contributors, **fields}), id_column=CONTRIBUTOR)
        numbers = np.array(positions, dtype=np.int64)
        typed_table = typed("contributions", columns, table.columns, table.layout)
        selected = select_rows([Piece(typed_table.file, typed_table.frame, numbers)], table, on_piece)
        return Numbered(selected.records, numbers[selected.rows])

    def fix(self, journal: Journal) -> None:
        with closing(Store(self._folder)) as store:
            digest = store.digest()
        fixed_digest = fixed_contributions(journal)
        if fixed_digest is not None and fixed_digest != digest:
            raise BrokenLedger(f"the contributions are not those that the run has begun with. {REMEDY}")
        if digest != self._read:
            raise BadInput("somebody contributed or withdrew while the curator started: start it again")
        if fixed_digest is None:
            journal.append(SAMPLE, {"contributions": digest})
        journal.publish()
