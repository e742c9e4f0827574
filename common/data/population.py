"""The people of a scenario by number, simulated or from a table; which people of a table are in a sample, and where."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, cast

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadData, BadScenario
from common.core.machine import on_all_cores
from common.core.values import Value
from common.data.distributions.base import AnyDistribution, Distribution
from common.data.tables import TableSource
from common.local.records import Records
from common.numerics.randomness import RandomSource

if TYPE_CHECKING:
    from common.data.examining import Notes
    from common.data.files import Piece
    from common.data.loading import Numbered

    Contributed = Callable[[TableSource, Callable[[Piece], None] | None], Numbered]
    """Opens contributed rows: returns records and row numbers, and calls back with the rows as they were given."""

_CELLS, _FEWEST = 1 << 19, 256
"""Number of features of simulated people that a thread draws at a time, and the least number of people."""


class PopulationSpec(Value):
    """Where people come from: a simulated ``distribution`` or a ``table`` of real records (exactly one)."""

    distribution: AnyDistribution | None = None
    table: TableSource | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.distribution is None) == (self.table is None):
            raise ValueError("give either a distribution or a table, not both and not neither")
        return self

    @property
    def _origin(self) -> Distribution | TableSource:
        return cast(Distribution | TableSource, self.table or self.distribution)

    @property
    def dimension(self) -> int:
        return self._origin.dimension

    @property
    def norm(self) -> float:
        """Public bound on the L2 norm of a feature vector (infinite if there is none)."""
        return self._origin.norm_bound

    @property
    def coordinate(self) -> float:
        """Public bound on the absolute value of one feature (infinite if there is none)."""
        return self._origin.coordinate_bound


Factor = Annotated[float, Field(ge=-1e6, le=1e6)]
Place = Annotated[int, Field(ge=0, lt=1 << 17)]


class FeatureMap(Value):
    """A public affine map Psi of public people's features: the curator's people and the agents have other ones.

    Attributes:
        rows: One per feature of the curator's people: (number of a public feature, factor) pairs, which are summed.
        offsets: One number per row, added to its sum; empty: 0.
    """

    rows: tuple[tuple[tuple[Place, Factor], ...], ...] = Field(min_length=1, max_length=1 << 17)
    offsets: tuple[Factor, ...] = ()

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.offsets and len(self.offsets) != len(self.rows):
            raise ValueError(f"{len(self.rows)} rows need as many offsets or none, found {len(self.offsets)}")
        return self

    @property
    def needed_features(self) -> int:
        """Number of features that it reads."""
        return 1 + max((place for row in self.rows for place, _ in row), default=-1)

    def moved(self, features: AnyArray) -> AnyArray:
        """Return the image of each row of features (n, d), float32; each depends on its row alone."""
        image = np.zeros((len(features), len(self.rows)))
        image += self.offsets or 0.0
        for column, row in enumerate(self.rows):
            for place, factor in row:
                image[:, column] += factor * features[:, place].astype(np.float64)
        limit = float(np.finfo(np.float32).max)
        return np.ascontiguousarray(np.clip(image, -limit, limit), dtype=np.float32)


class PublicPopulationSpec(PopulationSpec):
    """People whose records are public; ``count`` None: all of a table. If not ``labelled``, all labels are +1.

    ``mapping`` maps their features to those that the curator's people have.
    """

    count: int | None = Field(default=None, ge=1, le=1 << 26)
    labelled: bool = True
    mapping: FeatureMap | None = Field(default=None, exclude_if=lambda mapping: mapping is None)

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        if self.distribution is not None and self.count is None:
            raise ValueError("public.count: give how many public people to simulate")
        if self.mapping is not None and self.mapping.needed_features > self._origin.dimension:
            raise ValueError(
                f"public.mapping reads {self.mapping.needed_features} features, public people have "
                f"{self._origin.dimension}"
            )
        return self

    @property
    def dimension(self) -> int:
        return self._origin.dimension if self.mapping is None else len(self.mapping.rows)


class RecordSource(ABC):
    """A fixed number of people, numbered from 0, each with one record."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features d."""

    @abstractmethod
    def records(self, people: Indices, columns: Indices | None = None) -> Records:
        """Return the records of the people with these numbers, in that order (a copy); only some columns, if given."""

    def fingerprint(self) -> str | None:
        """Return a digest of all records, to recognize another table; None if the people are not held in memory."""
        return None

    def shifted(self, first: int) -> RecordSource:
        """Return as many people from number ``first`` on, if people are simulated; else the same people."""
        return self

    def _check(self, people: Indices) -> Indices:
        if people.size and not (people.min() >= 0 and people.max() < len(self)):
            raise BadData(f"people are numbered 0..{len(self) - 1}, found {people.min()}..{people.max()}")
        return people


class SimulatedRecordSource(RecordSource):
    """``size`` people of a distribution under a public seed, from number ``first`` on; needs no memory."""

    def __init__(self, distribution: Distribution, seed: int, size: int, first: int = 0) -> None:
        self._distribution, self._seed, self._size, self._first = distribution, seed, size, first

    def __len__(self) -> int:
        return self._size

    @property
    def dimension(self) -> int:
        return self._distribution.dimension

    def records(self, people: Indices, columns: Indices | None = None) -> Records:
        numbers = self._first + self._check(people)
        draw = partial(self._distribution.draw_columns, self._seed, columns=columns)
        share = max(_FEWEST, _CELLS // max(1, self.dimension))
        shares = [numbers[start : start + share] for start in range(0, max(1, len(numbers)), share)]
        return Records.joined(on_all_cores(draw, shares))

    def shifted(self, first: int) -> SimulatedRecordSource:
        return SimulatedRecordSource(self._distribution, self._seed, self._size, first)


class TableRecordSource(RecordSource):
    """The people of a table, held in memory in a fixed order."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @property
    def dimension(self) -> int:
        return self._records.dimension

    def records(self, people: Indices, columns: Indices | None = None) -> Records:
        return self._records.take(self._check(people), columns)

    def fingerprint(self) -> str | None:
        return self._records.fingerprint()


def locate(data: str) -> Path:
    """Return the directory of a scenario's key ``data``: as written, else under ``TANDEM_DATA``."""
    shelf = os.environ.get("TANDEM_DATA")
    places = [Path(data), *([Path(shelf) / data] if shelf else [])]
    for place in places:
        if place.is_dir():
            return place
    tried = " nor ".join(str(place) for place in places)
    remedy = "put the files there, or say where they are with --set data=DIRECTORY or the variable TANDEM_DATA"
    raise BadScenario(f"data: there is no directory {tried}; {remedy}")


def open_records(
    people: PopulationSpec,
    data: Path | None,
    seed: int,
    size: int | None,
    order: RandomSource | None = None,
    *,
    counted: Callable[[Notes], None] | None = None,
    contributed: Contributed | None = None,
) -> RecordSource:
    """Open the people that a section of a scenario describes.

    Args:
        data: Directory of the table files; a distribution needs none.
        seed: Public seed: determines the simulated people or, for a table, which of its people are taken.
        size: Number of people; None: all of a table.
        order: Fresh secret randomness that determines the order of a table's people (:func:`placed`); None: the seed
            determines it, for people who need no protection.
        counted: Called with counts of how the public rules changed a table's rows; private, as the rows are.
        contributed: Opens the rows of a table of contributions, which only the curator has.

    Raises:
        BadScenario: If a table has no directory, a distribution no size, or a table of contributions no opener.
        BadData: If a table cannot be read, or fewer than ``size`` of its people fit.
    """
    if people.distribution is not None:
        if size is None:
            raise BadScenario("how many people to simulate must be given, found no size")
        return SimulatedRecordSource(people.distribution, seed, size)
    table = cast(TableSource, people.table)
    if table.contributed:
        if contributed is None:
            raise BadScenario("these people contribute their records: only their curator has them")
        read = contributed
    else:
        if data is None:
            raise BadScenario("a table needs the directory of its files: give the scenario's key data")
        from common.data.loading import numbered

        read = partial(numbered, data)
    if counted is None:
        numbered_records = read(table, None)
    else:
        from common.data.examining import Notes

        notes, columns = Notes(), frozenset(feature.column for feature in table.features)
        numbered_records = read(table, lambda piece: notes.add(piece, table, columns))
        counted(notes)
    slots = placed(numbered_records.rows, size, RandomSource.seeded(seed, "people"), order)
    return TableRecordSource(numbered_records.records.take(slots))


def open_public(people: PublicPopulationSpec, data: Path | None, seed: int) -> Records:
    """Return the public sample, in memory, the same for every party; errors as :func:`open_records`."""
    population = open_records(people, data, seed, people.count)
    records = population.records(np.arange(len(population)))
    if people.mapping is not None:
        records = Records(people.mapping.moved(records.features), records.labels)
    return records if people.labelled else Records(records.features, np.ones_like(records.labels))


def placed(rows: Indices, size: int | None, public: RandomSource, secret: RandomSource | None) -> Indices:
    """Return the sample's people, slot by slot, so that a changed row changes one record: positions in rows, (n,).

    A row of the files is *replaced*: any of its fields may change, also those by which rows are kept. Let M be the rows
    that are kept, |M| >= n. Filtering first and permuting afterwards would move every person after the changed one.
    Instead, who is in the sample and where are decided as follows.

    *Who*: the n rows of M with the least keys f(i), where f is a pseudorandom function with a public key of the row's
    number i in the files. A row that joins or leaves M exchanges at most one of the n for another one, for any n.

    *Where*: in the order of the keys g(i), where g is a pseudorandom function with a *secret* key. No public rule can
    do this: if each slot is filled by a function of M, removing row a from M fills a's slot with s(a), removing row b
    fills b's slot with s(b), and removing both must do both, as each removal may change only one slot; so s(a) differs
    from s(b) for any two of the n slots, although fewer than n rows may be left over. With a secret g the order is
    uniformly random, whatever the rows contain. Let x be the row that leaves the sample and y the one that enters it.
    Exchanging g(x) and g(y) is a bijection of the keys that preserves their distribution; after it every other row is
    in the same slot as before, and y is in the slot of x. So both samples are mixtures, with the same weights, of pairs
    that differ in *one* slot. A mechanism that is (epsilon, delta)-DP for such pairs, adaptively for as long as the
    order is used, is (epsilon, delta)-DP for the mixtures (by joint convexity of the hockey-stick divergence; Renyi
    divergences, and trade-off functions, are quasi-convex). So it is (epsilon, delta)-DP for replacing one row of the
    *files*, with n public.

    Args:
        rows: M: the numbers in the files of the rows that are kept, ascending, shape (m,).
        size: n, public; None: the number of rows that are kept, which is then public.
        public: The key of f.
        secret: The key of g; None: the order is that of f, for people who need no protection.

    Raises:
        BadData: If fewer than n rows are kept; that n are kept is considered public, as n is.
    """
    count = len(rows) if size is None else size
    if count > len(rows):
        raise BadData(
            f"{count} people are wanted, the table has fewer that fit: lower their number, and leave some room (how "
            f"many fit is itself data, so a number that all files like this one have is the one to state)"
        )
    chosen = ranked(rows, public)[:count]
    return chosen if secret is None else chosen[ranked(rows[chosen], secret)]


def ranked(rows: Indices, source: RandomSource) -> Indices:
    """Return the order of rows by key, 128 pseudorandom bits of each row's number; ties are broken by that number.

    Args:
        rows: Numbers of rows, from 0, shape (m,).
        source: Fresh randomness; its words 2i and 2i + 1 are the key of row i.
    """
    if not rows.size:
        return np.zeros(0, dtype=np.int64)
    keys = source.words(2 * (int(rows.max()) + 1)).reshape(-1, 2)[rows]
    return np.lexsort((rows, keys[:, 1], keys[:, 0])).astype(np.int64)
