"""Exact independent draws from the reweighed sample mu, by rejection against its present maximum; views of a task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from common.core.arrays import Floats, Indices, Singles, Words
from common.core.errors import BadData
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Linear
from common.local.records import Records
from common.numerics.elementary import exp
from common.numerics.randomness import RandomSource
from curator.sample.base import Sample
from curator.sample.rows import GatheredRows, signed
from curator.sample.shard import BLOCK, AcceptanceTable, Picked, ScoreHistogram

MIN_ACCEPTANCE = 1 / 64  # below this share of accepted proposals, a table of the weights costs less
_WORDS = 1 << 16
_COPIED = 1 << 9  # records copied in one go to compute margins: they stay in the second-level cache for that
_FEW = 8  # records for each draw, up to which a table of them all is quicker than sorting the draws


@dataclass(frozen=True, repr=False, eq=False)
class Density:
    """A law on n records: mu_i proportional to ``p_i = exp(eta * min(score_i - cut, 0))``, in (0, 1].

    These are multiplicative weights, flat from ``cut`` upwards. ``eta`` is by one part of a score.
    """

    histogram: ScoreHistogram
    eta: float
    cut: float

    def __len__(self) -> int:
        return int(self.histogram.people.sum())

    @cached_property
    def top(self) -> float:
        """Score from which p = 1: the cut, or the highest score if that is less."""
        return min(self.cut, float(self.histogram.levels[-1]))

    def relative(self, cumulative_losses: Indices) -> Floats:
        """Return p of records with the given scores, float64."""
        return exp(self.eta * np.minimum(cumulative_losses - self.top, 0.0))

    @cached_property
    def acceptance(self) -> float:
        """Mean of p: the share of uniform proposals that are accepted."""
        return float(np.sum(self.histogram.people * self.relative(self.histogram.levels))) / len(self)

    def acceptance_table(self) -> AcceptanceTable:
        """Return the chances by which records are proposed and accepted.

        Limits are rounded *up* to 64 bits, which can only lower the share of the flat part, where mu is largest: the
        private side. The table begins where p < 2^-64.
        """
        highest = math.ceil(self.top)
        base = max(highest - math.ceil(64.0 * math.log(2.0) / self.eta) - 1, 0)
        p = self.relative(np.arange(base, highest + 1))
        if self.acceptance >= MIN_ACCEPTANCE:
            return AcceptanceTable(base, _limits(p))
        # Proposed in proportion to whole numbers not below p * most, and accepted with what rounding them up added.
        most = 1 << (62 - len(self).bit_length())
        heights = np.ceil(p * most)
        return AcceptanceTable(base, _limits(p * most / heights), heights.astype(np.int64))


def _limits(p: Floats) -> Words:
    stripes = np.maximum(np.ceil(np.ldexp(p, 64)), 1.0)
    whole = stripes >= 2.0**64
    return np.where(whole, np.uint64(2**64 - 1), np.where(whole, 1.0, stripes).astype(np.uint64) - np.uint64(1))


@dataclass(frozen=True, repr=False, eq=False)
class Distinct:
    """The distinct records among some draws: their numbers, ascending, and how often each was drawn.

    Each is seen through the task, if there is one: then they may look alike.
    """

    sample: Sample
    rows: Indices
    times: Indices
    task: Task | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.sample.dimension if self.task is None else self.task.features

    def take(self, places: Indices | slice) -> Records:
        """Return the records at the given places among these, which ascend (a copy)."""
        return _seen(self.sample.take(self.rows[places]), self.task)

    def located(self, places: Indices) -> GatheredRows:
        """Return the same for compiled loops: long ones in memory stay there."""
        rows = None if self.task else self.sample.in_place
        return GatheredRows.of(self.take(places)) if rows is None else rows.located(self.rows[places])

    def signed_margins(self, plane: Linear) -> Singles:
        """Return l_i (<w, x_i> - b) of all records, shape (m,), as :meth:`Linear.gaps`; long ones in memory stay there.

        It is below 0, or 0 with label +1, exactly where the half-space is wrong.
        """
        rows = None if self.task else self.sample.in_place
        margins = None if rows is None else rows.signed_margins(plane, self.rows)
        if margins is not None:
            return margins
        blocks = (self.take(slice(begin, begin + _COPIED)) for begin in range(0, len(self), _COPIED))
        return np.concatenate([signed(plane, block, np.arange(len(block))) for block in blocks])


def _seen(records: Records, task: Task | None) -> Records:
    return records if task is None else task.of(records)


class Sampler:
    """Draws of whole records from mu. What a learner gets to see of the private sample.

    Every draw is independent and exact up to the 64-bit rounding of :meth:`Density.acceptance_table`; the same source
    of randomness gives the same draws, however the sample is split. Records are seen through a public task, if there is
    one, which is a function of one record: a learner on views of draws is one on draws that begins with the view.

    Args:
        density: mu, over the same n records.
        share_bound: See :meth:`curator.sample.reweighing.Reweighing.share_bound`; 1 is good for all laws.

    Raises:
        BadData: If there are not as many records as the density has.
    """

    def __init__(self, sample: Sample, density: Density, share_bound: float = 1.0, task: Task | None = None) -> None:
        if len(density) != len(sample):
            raise BadData(f"{len(density)} weights do not belong to {len(sample)} records")
        self._sample = sample
        self._density = density
        self.share_bound = share_bound
        self._task = task

    def through(self, task: Task) -> Sampler:
        """Return what a task sees of these draws."""
        return Sampler(self._sample, self._density, self.share_bound, task)

    def __len__(self) -> int:
        return len(self._sample)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self._sample.dimension if self._task is None else self._task.features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features, float32 or uint8."""
        return self._sample.dtype

    def indices(self, count: int, source: RandomSource) -> Indices:
        """Draw ``count`` row numbers independently from mu, int64."""
        parts = [picked.rows for picked in self._picked(count, source, gather=False)]
        return np.concatenate(parts)[:count] if parts else np.empty(0, dtype=np.int64)

    def draws(self, count: int, source: RandomSource) -> Records:
        """Draw ``count`` records independently from mu."""
        parts = [picked.records for picked in self._picked(count, source, gather=True) if picked.records is not None]
        none = Records(np.empty((0, self._sample.dimension), dtype=self.dtype), np.empty(0, dtype=np.int8))
        return _seen(Records.joined(parts, count) if parts else none, self._task)

    def located(self, count: int, source: RandomSource) -> GatheredRows:
        """Draw the records of :meth:`draws` for one compiled loop; long ones in memory stay where they are."""
        whole = None if self._task else self._sample.whole
        if whole is None:
            return GatheredRows.of(self.draws(count, source))
        numbers = self.indices(count, source)
        return whole.copied(numbers) if self._sample.in_place is None else whole.located(numbers)

    def distinct(self, count: int, source: RandomSource) -> Distinct:
        """Draw ``count`` records independently from mu, as the distinct ones among them."""
        drawn = self.indices(count, source)
        if len(self._sample) > _FEW * count:
            rows, times = np.unique(drawn, return_counts=True)
        else:
            table = np.bincount(drawn)
            rows = np.flatnonzero(table)
            times = table[rows]
        return Distinct(self._sample, rows, times, self._task)

    def everybody(self) -> Iterator[Records]:
        """Yield the sample as it is, each record once, in its fixed order, in blocks, whatever the weights are."""
        blocks = self._sample.blocks(BLOCK)
        return blocks if self._task is None else map(self._task.of, blocks)  # neither holds a block longer than needed

    def weighted(self) -> Iterator[tuple[Records, Floats]]:
        """Yield the sample in blocks with a weight a record, in [0, 1], to which mu is proportional; the largest is 1.

        These are the same doubles on every machine, however the sample is split.
        """
        for records, scores in self._sample.scored_blocks(BLOCK):
            yield _seen(records, self._task), self._density.relative(scores.astype(np.int64))

    def _picked(self, count: int, source: RandomSource, *, gather: bool) -> Iterator[Picked]:
        """Yield batches of accepted proposals until there are ``count`` or a few more."""
        while count > 0:
            if not len(self._chances.heights):
                words = source.words(min(int(count / self._density.acceptance * 1.02) + 32, _WORDS))
                picked = self._sample.pick(words, self._chances, gather)
                if picked.undecided:
                    picked = self._sample.pick(words, self._chances, gather, source.words(len(words)))
            else:
                batch = min(count + 32, _WORDS)
                points, words = source.integers(self._piles[-1], batch), source.words(batch)
                picked = self._sample.find(points, words, self._piles, self._chances, gather)
            count -= len(picked.rows)
            yield picked

    @cached_property
    def _chances(self) -> AcceptanceTable:
        return self._density.acceptance_table()

    @cached_property
    def _piles(self) -> tuple[int, ...]:
        return self._sample.bucket_sums(self._chances)
