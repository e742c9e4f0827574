"""From contributions to a sample: collect in a state directory, open what is there, fix it for the run.

The run begins with an entry of the curator's ledger, which holds the digest of all contributions: from then on the
ledger's head, and every witness of it, speak for who is in the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from common.core.durable import durable_key, hold, make_folder
from common.core.errors import BadData, BadInput, BadMessage, BrokenLedger, Forged, RunBegun
from common.crypto.identity import Identity, verify
from common.data.tables import TableSource
from common.lifetime.charging import GivenPeople
from common.log.ledger import KEY, REMEDY, SAMPLE, Journal
from common.net.app import invitation, invitation_hash
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import policy_digest
from curator.contributions import fields, messages
from curator.contributions.collection import FOLDER, SEAL_KEY, Collection, source_of
from curator.contributions.messages import Contribution
from curator.contributions.store import FILE, Store

if TYPE_CHECKING:
    from common.data.files import Piece
    from common.data.loading import Numbered


CONTRIBUTOR = "contributor's key"
"""The column of what says who is who among people who have contributed."""


@contextmanager
def collecting(
    folder: Path, scenario: ResolvedScenario, *, most: int | None = None, token: str | None = None
) -> Iterator[Collection]:
    """Hold a state directory, and collect in it."""
    source_of(scenario)
    with closing(hold(folder)), closing(Journal(folder, {"policy": policy_digest(scenario)})) as journal:
        if fixed(journal) is not None:
            raise RunBegun(f"the run of {folder} has begun: collect for another one in a fresh directory")
        places = scenario.curator.n if most is None else most
        with closing(Collection(folder, scenario, journal.identity, most=places, token=token)) as collection:
            yield collection


def invited(folder: Path, count: int) -> list[str]:
    """Make so many invitation codes for what is collected in a state directory; they are returned this once."""
    make_folder(folder, mode=0o700)
    make_folder(folder / FOLDER, mode=0o700)
    codes = [invitation() for _ in range(count)]
    with closing(Store(folder / FOLDER)) as store:
        store.invite([invitation_hash(code) for code in codes])
    return codes


def after_the_beginning(folder: Path, scenario: ResolvedScenario) -> Collection:
    """Return the collection of a curator that serves: it says that the run has begun, and gives receipts again."""
    identity = Identity.load_or_create(folder / KEY)
    return Collection(folder, scenario, identity, most=scenario.curator.n, begun=True)


def fixed(journal: Journal) -> str | None:
    """Return the digest of the contributions with which the run has begun; None if it has not."""
    entries = (entry for entry in journal.chain.entries if entry.kind == SAMPLE)
    return next((str(entry.body["contributions"]) for entry in entries), None)


class Contributions:
    """The contributions that a run is about.

    Raises:
        BadInput: If nothing was collected there.
    """

    def __init__(self, folder: Path, scenario: ResolvedScenario) -> None:
        self._folder, self._scenario = folder / FOLDER, scenario
        if not (self._folder / FILE).exists():
            raise BadInput(
                f"no contributions in {folder}: collect records there first (curator collect), and serve with "
                f"the same --state"
            )
        self._read = ""
        self.given: GivenPeople | None = None
        """The people by their contributors' keys and their fields, once these were read."""

    def __call__(self, table: TableSource, seen: Callable[[Piece], None] | None) -> Numbered:
        """Open all of them; returns the records, and their positions in the place of rows' numbers.

        Raises:
            BadInput: If they are fewer than the sample takes.
            BrokenLedger: If one of them cannot be opened: it was changed on the disk.
        """
        import polars

        from common.data.files import Piece, typed
        from common.data.loading import Numbered, select_rows

        private = durable_key(self._folder / SEAL_KEY)
        positions, rows, contributors = [], [], []
        with closing(Store(self._folder)) as store:
            self._read = store.digest()
            for held in store:
                positions.append(held.position)
                contributors.append(held.envelope.key)
                try:
                    message = Contribution.parse(verify(held.envelope, Contribution.KIND))
                    rows.append(fields.read(messages.opened(message, held.envelope.key, private), table))
                except (Forged, BadMessage, BadData):
                    raise BrokenLedger(
                        f"contribution {held.position} in {store.path} cannot be opened: the file or {SEAL_KEY} was "
                        f"changed; put both back from a copy"
                    ) from None
        if len(rows) < self._scenario.curator.n:
            raise BadInput(
                f"{self._scenario.curator.n} people are wanted, and fewer have contributed: go on collecting, or ask "
                f"for fewer in a fresh directory (who has contributed has agreed to this number)"
            )
        columns = {name: [row[name] for row in rows] for name in sorted(table.columns)}
        own = {name: texts for name, texts in columns.items() if name not in (table.label.column, CONTRIBUTOR)}
        self.given = GivenPeople(polars.DataFrame({CONTRIBUTOR: contributors, **own}), id_column=CONTRIBUTOR)
        numbers = np.array(positions, dtype=np.int64)
        read = typed("contributions", columns, table.columns)
        found = select_rows([Piece(read.file, read.frame, numbers)], table, seen)
        return Numbered(found.records, numbers[found.rows])

    def fix(self, journal: Journal) -> None:
        """Let the run begin with what was read, durably; to be called while the directory is held."""
        with closing(Store(self._folder)) as store:
            now = store.digest()
        before = fixed(journal)
        if before is not None and before != now:
            raise BrokenLedger(f"the contributions are not those that the run has begun with. {REMEDY}")
        if now != self._read:
            raise BadInput("somebody contributed or withdrew while the curator started: start it again")
        if before is None:
            journal.append(SAMPLE, {"contributions": now})
        journal.publish()
