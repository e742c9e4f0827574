"""One shard: some of the curator's records with their scores, and the acceptance of proposals, in integers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices, Words
from common.core.errors import BadData
from common.core.machine import check_memory, on_all_cores, processors
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.kernels import njit, prefetch
from curator.sample.rows import ShardRows

BLOCK = 1 << 16  # records processed at a time: intermediate results stay in a core's cache
_SHARE = 1 << 22  # maximum number of records that a thread processes before it takes more
_WORTH = 1 << 22  # number of feature values that is worth another thread
_DENSE = 1 << 22  # scores up to which a thread counts in a table (32 MiB at most); above, it sorts
_WIDTHS = (np.uint8, np.uint16, np.uint32)
MAX_CUMULATIVE_LOSS = int(np.iinfo(np.uint32).max)
STEP = 512  # records per entry in the table of :func:`accumulate_heights`; one of them is found by a linear search
_AHEAD = 64
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@dataclass(frozen=True, repr=False, eq=False)
class ScoreHistogram:
    """The scores (``levels``) that occur, ascending, and how many records (``people``) have each, at least 1; int64."""

    levels: Indices
    people: Indices

    @classmethod
    def merged(cls, parts: list[ScoreHistogram]) -> ScoreHistogram:
        levels, places = np.unique(np.concatenate([part.levels for part in parts]), return_inverse=True)
        people = np.zeros(len(levels), dtype=np.int64)
        np.add.at(people, places, np.concatenate([part.people for part in parts]))
        return cls(levels, people)


@dataclass(frozen=True, repr=False, eq=False)
class AcceptanceTable:
    """The acceptance probability of a proposed record by its score, in 64-bit words.

    Attributes:
        base: Score of the first limit, which is also for all lower scores; scores above the last level use the last.
        limits: Shape (levels,), uint64, ascending: a proposal is accepted if a uniform word is at most the limit.
        heights: Shape (levels,), int64, positive: relative frequency with which a record is proposed. Empty if that is
            the same for all.
    """

    base: int
    limits: Words
    heights: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, repr=False, eq=False)
class AcceptedProposals:
    """The result of a batch of proposals.

    Attributes:
        places: Indices of the accepted proposals in the batch, ascending.
        rows, records: The number of each accepted record in the whole sample and, if requested, the record.
        undecided: How many proposals tie with their limit in the first 32 bits, and were left out because no further
            word was given for them.
    """

    places: Indices
    rows: Indices
    records: Records | None
    undecided: int


class Shard:
    """Rows and their scores. All computations are in integers, or on one row alone.

    So the whole sample's results are the same, bit for bit, for any number of shards and threads.

    Args:
        first: Number of the first record in the whole sample.
        threads: Maximum number of threads; None for one per core.
    """

    def __init__(self, rows: ShardRows, first: int = 0, threads: int | None = None) -> None:
        self._rows = rows
        self._first = first
        self._threads = threads
        self._cumulative_losses: AnyArray = np.zeros(len(rows), dtype=np.uint8)
        self._most = 0
        self._height_sums: Indices = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def check(self) -> None:
        self._rows.check()

    def block(self, begin: int, end: int) -> Records:
        return self._rows.block(begin, end)

    def scored_block(self, begin: int, end: int) -> tuple[Records, AnyArray]:
        return self.block(begin, end), self._cumulative_losses[begin:end].copy()

    def take(self, rows: Indices) -> Records:
        return self._rows.take(rows - self._first)

    def reweigh(self, weighing: Weighing, parts: int, most: int) -> ScoreHistogram:
        """Add to each score the record's loss, and count the scores.

        Args:
            parts: What a loss of 1 adds to the score: the weighing's own grain, or a multiple of it.
            most: Greatest possible score afterwards; ValueError if a greater one is possible.
        """
        self._advance(self._most + parts, most)
        self._cumulative_losses = self._cumulative_losses.astype(_width(most), copy=False)
        losses, factor = self._rows.losses(weighing), parts // weighing.grain

        def add(begin: int, end: int) -> None:
            _add(self._cumulative_losses[begin:end], losses(begin, end), factor)

        return self._histogram_after(add, most)

    def refine(self, factor: int, most: int) -> None:
        """Multiply every score by a factor; ``most`` is the greatest score possible afterwards: see :meth:`reweigh`."""
        self._advance(self._most * factor, most)
        self._cumulative_losses = self._cumulative_losses.astype(_width(most), copy=False)
        self._cumulative_losses *= self._cumulative_losses.dtype.type(factor)

    def cumulative_losses(self) -> AnyArray:
        """Return the scores, shape (n,), to be stored (private; read-only, and only until the next reweigh)."""
        view = self._cumulative_losses.view()
        view.flags.writeable = False
        return view

    def restore(self, cumulative_losses: AnyArray | None, most: int) -> ScoreHistogram:
        """Set the scores to what :meth:`cumulative_losses` returned, or all to 0 (None), and count them.

        Raises BadData, and changes nothing, if these cannot be scores of the records; none may be above ``most``.
        """
        if cumulative_losses is None:
            cumulative_losses = np.zeros(len(self), dtype=np.uint8)
        if cumulative_losses.shape != (len(self),):
            raise BadData(f"stored weights of shape {cumulative_losses.shape} are not those of {len(self)} records")
        if cumulative_losses.dtype not in [np.dtype(width) for width in _WIDTHS]:
            raise BadData(f"stored weights must be unsigned counts, found {cumulative_losses.dtype}")
        if most < 0 or int(cumulative_losses.max(initial=0)) > most:
            raise BadData(f"stored weights lie outside [0, {most}]")
        self._cumulative_losses, self._most = np.array(cumulative_losses), most
        return self._histogram_after(lambda begin, end: None, most)

    def _advance(self, reached: int, most: int) -> None:
        if reached > most:
            raise ValueError(f"scores may reach {reached}, beyond {most}: restore the sample before another law begins")
        self._most = reached

    def _histogram_after(self, work: Callable[[int, int], None], most: int) -> ScoreHistogram:
        """Do work on every block of records, and count the resulting scores, on all cores in bounded memory."""
        evenly = -(-len(self) // (self._threads or processors()))
        size = min(_SHARE, max(evenly, -(-_WORTH // self._rows.dimension)))

        def share(start: int) -> ScoreHistogram:
            end = min(start + size, len(self))
            tables = np.zeros((4 if most < BLOCK else 1, most + 1 if most < _DENSE else 0), dtype=np.int64)
            for begin in range(start, end, BLOCK):
                work(begin, min(begin + BLOCK, end))
                if most < _DENSE:
                    _tally(self._cumulative_losses[begin : min(begin + BLOCK, end)], tables)
            if most >= _DENSE:
                levels, people = np.unique(self._cumulative_losses[start:end], return_counts=True)
                return ScoreHistogram(levels.astype(np.int64), people)
            people = tables.sum(axis=0)
            levels = np.flatnonzero(people)
            return ScoreHistogram(levels, people[levels])

        starts = range(0, len(self), size)
        if len(starts) == 1:
            return share(0)
        if self._threads is None:
            return ScoreHistogram.merged(on_all_cores(share, starts))
        with ThreadPoolExecutor(self._threads, "shard") as pool:
            return ScoreHistogram.merged(list(pool.map(share, starts)))

    def check_room(self, width: int) -> None:
        check_memory(
            f"widening the counts of {len(self):,} people",
            width * len(self),
            "reweigh by mistakes (zero-one)",
        )

    def pick(
        self, words: Words, ties: Words, size: int, acceptance_table: AcceptanceTable, gather: bool
    ) -> AcceptedProposals:
        """Go through proposals of single records of the whole sample (:func:`accept`), and pick those of this shard.

        The words are the same for all shards, and ``size`` is the total number of records. With ``gather`` the records
        are returned, too, else only their numbers.
        """
        places, rows = np.empty((2, len(words)), dtype=np.int64)
        table = (acceptance_table.base, acceptance_table.limits)
        count, undecided = accept(words, ties, size, self._first, self._cumulative_losses, *table, places, rows)
        return self._accepted(places[:count], rows[:count], undecided, gather)

    def bucket_sums(self, acceptance_table: AcceptanceTable) -> int:
        """Add up the heights of this shard's records by buckets, for :meth:`find`; return their sum."""
        stairs = np.empty(-(-len(self) // STEP), dtype=np.int64)
        accumulate_heights(self._cumulative_losses, acceptance_table.base, acceptance_table.heights, stairs)
        self._height_sums = stairs
        return int(stairs[-1]) if len(self) else 0

    def find(
        self, points: Indices, words: Words, first: int, acceptance_table: AcceptanceTable, gather: bool
    ) -> AcceptedProposals:
        """Find the records at the given points of all shards' cumulative heights; this shard's begin at ``first``.

        Each is accepted if its word is at most its limit.
        """
        places, rows = np.empty((2, len(points)), dtype=np.int64)
        table = (acceptance_table.base, acceptance_table.limits, acceptance_table.heights)
        count = find(points, words, first, self._cumulative_losses, *table, self._height_sums, places, rows)
        return self._accepted(places[:count], rows[:count], 0, gather)

    def _accepted(self, places: Indices, rows: Indices, undecided: int, gather: bool) -> AcceptedProposals:
        records = self._rows.take(rows) if gather else None
        return AcceptedProposals(places, rows + self._first, records, undecided)


def growth(old_score: int, new_score: int) -> int:
    """Return the bytes per record of scores up to ``new_score`` if those up to ``old_score`` are narrower, else 0."""
    wide = np.dtype(_width(min(new_score, MAX_CUMULATIVE_LOSS)))
    return wide.itemsize if wide != np.dtype(_width(old_score)) else 0


def _width(most: int) -> type[np.unsignedinteger[Any]]:
    return next(width for width in _WIDTHS if most <= np.iinfo(width).max)


@njit
def _add(cumulative_losses: AnyArray, losses: AnyArray, factor: int) -> None:
    for i in range(len(cumulative_losses)):
        cumulative_losses[i] += np.uint32(losses[i]) * np.uint32(factor)


@njit
def _tally(cumulative_losses: AnyArray, tables: AnyArray) -> None:
    mask = len(tables) - 1
    for i in range(len(cumulative_losses)):
        tables[i & mask, cumulative_losses[i]] += 1


@njit
def level(cumulative_loss: Any, base: Any, last: Any) -> Any:
    """Return the index of a score in the tables of limits and heights."""
    return max(min(np.int64(cumulative_loss) - base, last), 0)


@njit
def accept(
    words: Words, ties: Words, size: int, first: int, cumulative_losses: AnyArray, base: int, limits: Words,
    places: Indices, rows: Indices,
) -> tuple[int, int]:  # fmt: skip
    """Accept or reject one uniformly proposed record per word; return how many are accepted and undecided.

    The low half of the word picks one of all ``size`` records (Lemire's exact multiply-and-shift). This shard begins at
    ``first``, and records of other shards are skipped. The high half is compared with that of the record's limit. If
    they are equal, the high half of ``ties`` (one word per proposal, or none at all) decides. Limits ascend with the
    score. Words below the first limit accept every record without reading its score.
    """
    n = np.uint64(size)
    biased = (np.uint64(1) << _32) % n
    count, last = len(cumulative_losses), len(limits) - 1
    least = limits[0] >> _32
    accepted_count: Any = 0
    undecided = 0
    for k in range(len(words)):
        if k + _AHEAD < len(words) and (words[k + _AHEAD] >> _32) >= least:
            prefetch(cumulative_losses, np.int64(((words[k + _AHEAD] & _LOW) * n) >> _32) - first)
        product = (words[k] & _LOW) * n
        row = np.int64(product >> _32) - first
        if row < 0 or row >= count or (product & _LOW) < biased:
            continue
        high = words[k] >> _32
        if high < least:
            places[accepted_count] = k
            rows[accepted_count] = row
            accepted_count += 1
            continue
        limit = limits[level(cumulative_losses[row], base, last)]
        accepted = high < (limit >> _32)
        if high == (limit >> _32):
            if len(ties) == 0:
                undecided += 1
            else:
                accepted = (ties[k] >> _32) <= (limit & _LOW)
        # Written whether accepted or not, since a branch here would be mispredicted and would wait for memory.
        places[accepted_count] = k
        rows[accepted_count] = row
        accepted_count += np.int64(accepted)
    return accepted_count, undecided


@njit
def accumulate_heights(cumulative_losses: AnyArray, base: int, heights: Indices, stairs: Indices) -> None:
    """Sum up the heights of the records, and store the sum after every :data:`STEP` of them."""
    last = len(heights) - 1
    total = 0
    for step in range(len(stairs)):
        for i in range(step * STEP, min((step + 1) * STEP, len(cumulative_losses))):
            total += heights[level(cumulative_losses[i], base, last)]
        stairs[step] = total


@njit
def find(
    points: Indices, words: Words, first: int, cumulative_losses: AnyArray, base: int, limits: Words, heights: Indices,
    stairs: Indices, places: Indices, rows: Indices,
) -> int:  # fmt: skip
    """Find the record whose interval of the cumulative heights from ``first`` has each point; accept or reject it.

    Points outside this shard's sums are left to other shards. Returns how many are accepted.
    """
    last = len(heights) - 1
    accepted_count: Any = 0
    for k in range(len(points)):
        point = points[k] - first
        if point < 0 or len(stairs) == 0 or point >= stairs[-1]:
            continue
        step = np.searchsorted(stairs, point, side="right")
        row = step * STEP
        left = point - (stairs[step - 1] if step > 0 else 0)
        while left >= heights[level(cumulative_losses[row], base, last)]:
            left -= heights[level(cumulative_losses[row], base, last)]
            row += 1
        places[accepted_count] = k
        rows[accepted_count] = row
        accepted_count += np.int64(words[k] <= limits[level(cumulative_losses[row], base, last)])
    return int(accepted_count)
