"""A sample whose shards are all in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from common.local.records import Records
from curator.sample.base import Answer, Sample
from curator.sample.rows.base import Rows
from curator.sample.rows.fixed import FixedRows
from curator.sample.rows.single import SingleRows
from curator.sample.shard import Shard


class LocalSample(Sample):
    """Shards in this process, asked one after the other; each uses all cores.

    Parameters
    ----------
    rows
        The rows of each shard; all have the same features.
    threads
        How many threads may work at a time; None: one for each core.
    """

    def __init__(self, rows: Sequence[Rows], threads: int | None = None) -> None:
        sizes = [len(part) for part in rows]
        grid = rows[0].grid if isinstance(rows[0], FixedRows) else None
        super().__init__(sizes, rows[0].dimension, rows[0].dtype, grid)
        firsts = [0, *accumulate(sizes)]
        self._whole = rows[0] if len(rows) == 1 else None
        self._shards = [Shard(part, first, threads) for part, first in zip(rows, firsts, strict=False)]

    @classmethod
    def of(cls, records: Records) -> LocalSample:
        """Return the sample of these records, in one shard."""
        return cls([SingleRows(records)])

    @property
    def in_place(self) -> Rows | None:
        """The rows, if they are in one piece, long, and in memory."""
        return self._whole if self._whole is not None and self._whole.long and not self._whole.mapped else None

    @property
    def whole(self) -> Rows | None:
        """The rows, if they are in one piece."""
        return self._whole

    def ask(self, question: Callable[..., Answer], arguments: Mapping[int, tuple[Any, ...]]) -> list[Answer]:
        """Ask the shards one after the other."""
        return [question(self._shards[shard], *given) for shard, given in arguments.items()]
