"""The private sample as its curator uses it: one or several shards, in this process or elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from typing import Any, Self, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Indices, Words
from common.core.errors import BadData
from common.local.losses import Weighing
from common.local.records import Records
from curator.sample.rows import ShardRows, SingleRows
from curator.sample.shard import AcceptanceTable, AcceptedProposals, ScoreHistogram, Shard

Answer = TypeVar("Answer")

MAX_RECORDS = (1 << 32) - 1
_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)


class Sample(ABC):
    """The coordinator of n records with their scores, in shards; it draws no randomness and reads no record itself.

    Results do not depend on how the records are split: shards compute in integers, or on one row alone.

    Attributes:
        sizes: Number of records of each shard, in the sample's order; at least 1 and below 2^32 in all.
        dimension: Number of features d.
        dtype: Type of the features as learners see them, float32 or uint8.
        resources: Resources that are closed with the sample.
        local_rows: All rows, if they are in one piece in this process.
    """

    local_rows: ShardRows | None = None

    def __init__(self, sizes: Sequence[int], dimension: int, dtype: np.dtype[Any]) -> None:
        if not 1 <= sum(sizes) <= MAX_RECORDS:
            raise BadData(f"a sample must hold between 1 and {MAX_RECORDS} records, found {sum(sizes)}")
        self.sizes = tuple(sizes)
        self.resources = ExitStack()
        self.dimension, self.dtype = dimension, dtype

    def __len__(self) -> int:
        return sum(self.sizes)

    def close(self) -> None:
        self.resources.close()

    @abstractmethod
    def ask(self, question: Callable[..., Answer], arguments: Mapping[int, tuple[Any, ...]]) -> list[Answer]:
        """Call a method of :class:`~curator.sample.shard.Shard` on the shards with the given numbers and arguments.

        The shards may work at the same time; answers are in the order of ``arguments``.
        """

    def _all(self, question: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        return self.ask(question, dict.fromkeys(range(len(self.sizes)), arguments))

    def reweigh(self, weighing: Weighing, parts: int, most: int) -> ScoreHistogram:
        """Add every record's loss to its score and count the scores; see :meth:`Shard.reweigh`.

        If that fails half-way, only some scores are updated: :meth:`restore` them.
        """
        return ScoreHistogram.merged(self._all(Shard.reweigh, weighing, parts, most))

    def refine(self, factor: int, most: int) -> None:
        self._all(Shard.refine, factor, most)

    def check_room(self, width: int) -> None:
        self._all(Shard.check_room, width)

    def cumulative_losses(self) -> Iterator[AnyArray]:
        """Yield each shard's scores, to be stored (private)."""
        for shard in range(len(self.sizes)):
            yield from self.ask(Shard.cumulative_losses, {shard: ()})

    def restore(self, cumulative_losses: Iterable[AnyArray] | None, most: int) -> ScoreHistogram:
        """Set the scores to those from :meth:`cumulative_losses` of the same shards, or all to 0 (see the shard)."""
        parts = [None] * len(self.sizes) if cumulative_losses is None else cumulative_losses
        histograms = [
            self.ask(Shard.restore, {shard: (part, most)})[0]
            for shard, part in zip(range(len(self.sizes)), parts, strict=True)
        ]
        return ScoreHistogram.merged(histograms)

    @property
    def in_place(self) -> ShardRows | None:
        """All rows, if a loop in this process should read single rows in place; else None."""
        return self.local_rows if self.local_rows is not None and self.local_rows.near else None

    def check(self) -> None:
        """Refuse invalid records, as :meth:`common.local.records.Records.check` does."""
        self._all(Shard.check)

    def blocks(self, size: int) -> Iterator[Records]:
        """Yield the records in the sample's order, ``size`` at a time (a shard's last may be fewer)."""
        for shard, ends in self._pieces(size):
            yield from self.ask(Shard.block, {shard: ends})

    def scored_blocks(self, size: int) -> Iterator[tuple[Records, AnyArray]]:
        for shard, ends in self._pieces(size):
            yield from self.ask(Shard.scored_block, {shard: ends})

    def _pieces(self, size: int) -> Iterator[tuple[int, tuple[int, int]]]:
        for shard, count in enumerate(self.sizes):
            yield from ((shard, (begin, min(begin + size, count))) for begin in range(0, count, size))

    def take(self, rows: Indices) -> Records:
        """Return a copy of the records with the given ascending numbers."""
        ends = np.searchsorted(rows, np.cumsum(self.sizes))
        parts = {
            shard: (rows[begin:end],)
            for shard, (begin, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True))
            if end > begin or len(self.sizes) == 1
        }
        return Records.joined(self.ask(Shard.take, parts))

    def pick(
        self, words: Words, acceptance_table: AcceptanceTable, gather: bool, ties: Words = _NO_WORDS
    ) -> AcceptedProposals:
        """Propose one uniformly chosen record per word, and accept or reject it; see :meth:`Shard.pick`."""
        return _join_proposals(self._all(Shard.pick, words, ties, len(self), acceptance_table, gather))

    def bucket_sums(self, acceptance_table: AcceptanceTable) -> tuple[int, ...]:
        """Add up the records' heights by buckets; return the start of each shard's sums, and the end of the last."""
        return (0, *accumulate(self._all(Shard.bucket_sums, acceptance_table)))

    def find(
        self, points: Indices, words: Words, firsts: tuple[int, ...], acceptance_table: AcceptanceTable, gather: bool
    ) -> AcceptedProposals:
        """Propose the records at the given points of the sums, and accept or reject them; see :meth:`Shard.find`."""
        calls = {shard: (points, words, firsts[shard], acceptance_table, gather) for shard in range(len(self.sizes))}
        return _join_proposals(self.ask(Shard.find, calls))


def _join_proposals(parts: list[AcceptedProposals]) -> AcceptedProposals:
    if len(parts) == 1:
        return parts[0]
    indices = np.concatenate([part.places for part in parts])
    order = np.argsort(indices)
    records = [part.records for part in parts if part.records is not None]
    return AcceptedProposals(
        indices[order],
        np.concatenate([part.rows for part in parts])[order],
        Records.joined(records).take(order) if records else None,
        sum(part.undecided for part in parts),
    )


class LocalSample(Sample):
    """Shards in this process, called one after the other; each uses all cores, or a given number of threads.

    The rows of all shards have the same features.
    """

    def __init__(self, rows: Sequence[ShardRows], threads: int | None = None) -> None:
        sizes = [len(part) for part in rows]
        super().__init__(sizes, rows[0].dimension, rows[0].dtype)
        firsts = [0, *accumulate(sizes)]
        self.local_rows = rows[0] if len(rows) == 1 else None
        self._shards = [Shard(part, first, threads) for part, first in zip(rows, firsts, strict=False)]

    @classmethod
    def from_records(cls, records: Records) -> Self:
        return cls([SingleRows(records)])

    def ask(self, question: Callable[..., Answer], arguments: Mapping[int, tuple[Any, ...]]) -> list[Answer]:
        return [question(self._shards[shard], *parameters) for shard, parameters in arguments.items()]
