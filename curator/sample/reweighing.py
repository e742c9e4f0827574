"""The curator's weights: lazy multiplicative weights, none above 1/(kappa n); exact independent draws from them, mu."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices, Singles, Words
from common.core.errors import BadData, BadInput, BadScenario
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics import elementary
from common.numerics.kernels import njit
from common.numerics.loops import exp, log
from common.numerics.randomness import RandomSource
from common.privacy.budget import MIN_SUPPORT, sampling_schedule
from common.privacy.rounding import up
from curator.sample.base import LocalSample, Sample
from curator.sample.rows import GatheredRows, margins_of
from curator.sample.shard import BLOCK, MAX_CUMULATIVE_LOSS, AcceptanceTable, AcceptedProposals, ScoreHistogram, growth

MIN_ACCEPTANCE = 1 / 64  # below this share of accepted proposals, a table of the weights is cheaper
_WORDS = 1 << 16
_COPIED = 1 << 9  # records copied at a time to compute margins: they stay in the second-level cache
_FEW = 8  # records per draw, up to which a table of all records is faster than sorting the draws


@dataclass(frozen=True, repr=False, eq=False)
class Density:
    """A law on n records: mu_i proportional to ``p_i = exp(eta * min(score_i - cut, 0))``, in (0, 1].

    These are multiplicative weights, flat from ``cut`` upwards. ``eta`` is per unit of the score.
    """

    histogram: ScoreHistogram
    eta: float
    cut: float

    def __len__(self) -> int:
        return int(self.histogram.people.sum())

    @cached_property
    def top(self) -> float:
        """Least score with p = 1: the cut, or the highest score if that is less."""
        return min(self.cut, float(self.histogram.levels[-1]))

    def relative(self, cumulative_losses: Indices) -> Floats:
        """Return p of records with the given scores, float64."""
        return elementary.exp(self.eta * np.minimum(cumulative_losses - self.top, 0.0))

    @cached_property
    def acceptance(self) -> float:
        """Mean of p: the share of uniform proposals that are accepted."""
        return float(np.sum(self.histogram.people * self.relative(self.histogram.levels))) / len(self)

    def acceptance_table(self) -> AcceptanceTable:
        """Return the probabilities with which records are proposed and accepted.

        Limits are rounded *up* to 64 bits. That can only lower the share of the flat part, where mu is largest, so it
        is conservative for privacy. The table begins where p < 2^-64.
        """
        highest = math.ceil(self.top)
        base = max(highest - math.ceil(64.0 * math.log(2.0) / self.eta) - 1, 0)
        p = self.relative(np.arange(base, highest + 1))
        if self.acceptance >= MIN_ACCEPTANCE:
            return AcceptanceTable(base, _limits(p))
        # Proposed in proportion to whole numbers >= p * most, and accepted so as to correct for the rounding up.
        scale = 1 << (62 - len(self).bit_length())
        heights = np.ceil(p * scale)
        return AcceptanceTable(base, _limits(p * scale / heights), heights.astype(np.int64))


def _limits(p: Floats) -> Words:
    stripes = np.maximum(np.ceil(np.ldexp(p, 64)), 1.0)
    certain = stripes >= 2.0**64
    return np.where(certain, np.uint64(2**64 - 1), np.where(certain, 1.0, stripes).astype(np.uint64) - np.uint64(1))


@dataclass(frozen=True, repr=False, eq=False)
class Distinct:
    """The distinct records among some draws: their numbers, ascending, and how often each was drawn.

    Each is transformed by the task, if there is one; they may then have equal values.
    """

    sample: Sample
    rows: Indices
    times: Indices
    task: Task | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimension(self) -> int:
        return self.sample.dimension if self.task is None else self.task.features

    def take(self, places: Indices | slice) -> Records:
        """Return a copy of the records at the given ascending places among these."""
        return _transformed(self.sample.take(self.rows[places]), self.task)

    def gathered(self, places: Indices) -> GatheredRows:
        """Return the same records for compiled loops; long rows in memory are not copied."""
        rows = None if self.task else self.sample.in_place
        return GatheredRows.from_records(self.take(places)) if rows is None else rows.gathered(self.rows[places])

    def signed_margins(self, plane: Linear) -> Singles:
        """Return l_i (<w, x_i> - b) of all records, shape (m,), as :meth:`Linear.gaps`; long rows are not copied.

        It is below 0, or 0 with label +1, exactly where the half-space is wrong.
        """
        rows = None if self.task else self.sample.in_place
        margins = None if rows is None else rows.signed_margins(plane, self.rows)
        if margins is not None:
            return margins
        blocks = (self.take(slice(begin, begin + _COPIED)) for begin in range(0, len(self), _COPIED))
        return np.concatenate([margins_of(plane, block, np.arange(len(block))) for block in blocks])


def _transformed(records: Records, task: Task | None) -> Records:
    return records if task is None else task.of(records)


class Sampler:
    """Draws of whole records from mu: a learner's only view of the private sample.

    Every draw is independent and exact up to the 64-bit rounding of :meth:`Density.acceptance_table`. The same source
    of randomness gives the same draws, however the sample is split. Records are transformed by a public task, if there
    is one. As that is a function of one record, a learner on transformed draws is a learner on draws.

    Args:
        density: mu, over the same n records.
        share_bound: See :meth:`curator.sample.reweighing.Reweighing.share_bound`; 1 is valid for all laws.

    Raises:
        BadData: If the number of records differs from the density's.
    """

    def __init__(self, sample: Sample, density: Density, share_bound: float = 1.0, task: Task | None = None) -> None:
        if len(density) != len(sample):
            raise BadData(f"{len(density)} weights do not belong to {len(sample)} records")
        self._sample = sample
        self._density = density
        self.share_bound = share_bound
        self._task = task

    def through(self, task: Task) -> Sampler:
        """Return the same sampler with records transformed by a task."""
        return Sampler(self._sample, self._density, self.share_bound, task)

    def __len__(self) -> int:
        return len(self._sample)

    @property
    def dimension(self) -> int:
        return self._sample.dimension if self._task is None else self._task.features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._sample.dtype

    def indices(self, count: int, source: RandomSource) -> Indices:
        """Draw ``count`` row numbers independently from mu, int64."""
        parts = [picked.rows for picked in self._accepted(count, source, gather=False)]
        return np.concatenate(parts)[:count] if parts else np.empty(0, dtype=np.int64)

    def draws(self, count: int, source: RandomSource) -> Records:
        """Draw ``count`` records independently from mu."""
        parts = [picked.records for picked in self._accepted(count, source, gather=True) if picked.records is not None]
        none = Records(np.empty((0, self._sample.dimension), dtype=self.dtype), np.empty(0, dtype=np.int8))
        return _transformed(Records.joined(parts, count) if parts else none, self._task)

    def gathered(self, count: int, source: RandomSource) -> GatheredRows:
        """Draw the records of :meth:`draws` for a compiled loop; long rows in memory are not copied."""
        rows = None if self._task else self._sample.local_rows
        if rows is None:
            return GatheredRows.from_records(self.draws(count, source))
        numbers = self.indices(count, source)
        return rows.copied(numbers) if self._sample.in_place is None else rows.gathered(numbers)

    def distinct(self, count: int, source: RandomSource) -> Distinct:
        """Draw ``count`` records independently from mu; return the distinct ones with their counts."""
        numbers = self.indices(count, source)
        if len(self._sample) > _FEW * count:
            rows, times = np.unique(numbers, return_counts=True)
        else:
            table = np.bincount(numbers)
            rows = np.flatnonzero(table)
            times = table[rows]
        return Distinct(self._sample, rows, times, self._task)

    def everybody(self) -> Iterator[Records]:
        """Yield the unweighted sample in blocks, each record once, in its fixed order."""
        blocks = self._sample.blocks(BLOCK)
        return blocks if self._task is None else map(self._task.of, blocks)  # neither holds a block longer than needed

    def weighted(self) -> Iterator[tuple[Records, Floats]]:
        """Yield the sample in blocks with a weight in [0, 1] per record, proportional to mu; the largest is 1.

        The weights are the same doubles on every machine, however the sample is split.
        """
        for records, scores in self._sample.scored_blocks(BLOCK):
            yield _transformed(records, self._task), self._density.relative(scores.astype(np.int64))

    def _accepted(self, count: int, source: RandomSource, *, gather: bool) -> Iterator[AcceptedProposals]:
        """Yield batches of accepted proposals until there are at least ``count``."""
        while count > 0:
            if not len(self._acceptance.heights):
                words = source.words(min(int(count / self._density.acceptance * 1.02) + 32, _WORDS))
                picked = self._sample.pick(words, self._acceptance, gather)
                if picked.undecided:
                    picked = self._sample.pick(words, self._acceptance, gather, source.words(len(words)))
            else:
                batch = min(count + 32, _WORDS)
                points, words = source.integers(self._bucket_sums[-1], batch), source.words(batch)
                picked = self._sample.find(points, words, self._bucket_sums, self._acceptance, gather)
            count -= len(picked.rows)
            yield picked

    @cached_property
    def _acceptance(self) -> AcceptanceTable:
        return self._density.acceptance_table()

    @cached_property
    def _bucket_sums(self) -> tuple[int, ...]:
        return self._sample.bucket_sums(self._acceptance)


HEADROOM = 2.0**-20
"""Share by which the projection's target exceeds kappa n, so that after rounding mu is below the cap 1/(kappa n).

Rounding moves draws by at most 2^-52 in total variation; the headroom 2^-20/(kappa n) is more for every n below 2^32.
"""


class Reweighing:
    """The law of n records' weights after t reweighs, and the resulting distribution mu.

    ``log w_i = -eta * sum_{r <= t} (1 - loss_r(i))``. Only differences matter, so only the *score* ``sum_r loss_r(i)``
    is stored beside each record: ``w_i`` is proportional to ``exp(eta * score_i)``. Scores are whole numbers: counts of
    mistakes or, from the first other loss on, of 1024ths (:mod:`common.local.losses`). The projection needs only the
    number of records with each score.

    mu is the kappa-dense projection (Kohen & Sheffet, equation (2) and Algorithm 2)

        mu_i = min(c w_i, 1) / (kappa n),  c the smallest with sum_i min(c w_i, 1) = kappa n.

    The weights are *lazy*: the projection is never written back. Privacy requires this. For neighbouring samples (one
    record replaced) lazy weights differ in one entry, which moves all other mu_j in one common direction, so
    TV(mu, mu') = max(mu_i, mu'_i) <= 1/(kappa n). Otherwise it is several times that (docs/corrections.md).

    Kappa is in (0, 1] with kappa n > 10; None for the null projection of Algorithm 1, mu_i proportional to w_i. Eta,
    the learning rate, is positive. ``updates`` is t.
    """

    def __init__(self, n: int, kappa: float | None, eta: float) -> None:
        if n < 1:
            raise BadScenario(f"a sample must hold at least one record, found n = {n}")
        if kappa is not None and not 0.0 < kappa <= 1.0:
            raise BadScenario(f"kappa must be in (0, 1], found {kappa}")
        if kappa is not None and kappa * n <= MIN_SUPPORT:
            raise BadScenario(
                f"kappa n must exceed {MIN_SUPPORT:g}, found {kappa} * {n} = {kappa * n:g}: enlarge the sample"
            )
        if not (math.isfinite(eta) and eta > 0.0):
            raise BadScenario(f"eta must be positive, found {eta}")
        self.n = n
        self.kappa = kappa
        self.eta = eta
        self.updates = 0
        self._parts = 1
        self._histogram = ScoreHistogram(np.zeros(1, dtype=np.int64), np.array([n], dtype=np.int64))
        self._schedule: tuple[float, ...] = ()

    @classmethod
    def restore(
        cls,
        sample: Sample,
        kappa: float | None,
        eta: float,
        reweighs: Iterable[Weighing] = (),
        cumulative_losses: Iterable[AnyArray] | None = None,
    ) -> Self:
        """Set a sample's scores to those of each shard after these reweighs, and return their law.

        Raises BadData for scores that are impossible after these reweighs.
        """
        reweighing = cls(len(sample), kappa, eta)
        grains = [weighing.grain for weighing in reweighs]
        reweighing.updates, reweighing._parts = len(grains), max(grains, default=1)
        reweighing._histogram = sample.restore(cumulative_losses, reweighing.updates * reweighing._parts)
        return reweighing

    def update(self, sample: Sample, weighing: Weighing) -> None:
        """Multiply each weight by ``exp(-eta (1 - loss_i))``, where loss_i is the loss of record i by ``weighing``.

        If it fails half-way, only some scores are updated: :meth:`restore` them. Scores beyond 32 bits (2^22 reweighs
        by real losses) raise BadInput and change nothing.
        """
        parts = max(self._parts, weighing.grain)
        most = (self.updates + 1) * parts
        if most > MAX_CUMULATIVE_LOSS:
            raise BadInput(f"weights hold {MAX_CUMULATIVE_LOSS // parts} reweighs of this kind, this would be one more")
        if parts > self._parts:
            sample.refine(parts // self._parts, most)
            self._parts = parts
        self._histogram = sample.reweigh(weighing, parts, most)
        self.updates += 1

    def widening(self, weighing: Weighing) -> int:
        """Return how many more bytes per record such a reweigh needs temporarily; 0 if counts keep their width."""
        parts = max(self._parts, weighing.grain)
        return growth(self.updates * self._parts, (self.updates + 1) * parts)

    def density(self) -> Density:
        return Density(self._histogram, self.eta / self._parts, self._cut())

    def _cut(self) -> float:
        if self.kappa is None:
            return math.inf
        budget = min(self.kappa * self.n * (1.0 + HEADROOM), float(self.n))
        levels, people = self._histogram.levels, self._histogram.people
        return project(levels.astype(np.float64), people, self.eta / self._parts, budget)

    def sampler(self, sample: Sample | Records) -> Sampler:
        """Return a sampler of mu over the reweighed sample; plain records are a sample that was never reweighed."""
        shards = LocalSample.from_records(sample) if isinstance(sample, Records) else sample
        return Sampler(shards, self.density(), self.share_bound())

    def sampling_bound(self) -> float:
        """Return s, a bound (rounded up) on the total variation between mu and mu' of neighbouring samples.

        ``s_t = min(e^{eta t} / (n - 1 + e^{eta t}), 1 / (kappa n))``: after t reweighs with losses in [0, 1], two
        weights differ by a factor of at most e^{eta t}, and flattening only lowers the largest mu_i.
        """
        if self.kappa is None:
            spread = 1.0 / (1.0 + (self.n - 1) * math.exp(-self.eta * self.updates))
            return min(spread * (1.0 + 2.0**-40), 1.0)
        if self.updates >= len(self._schedule):
            self._schedule = sampling_schedule(self.n, self.kappa, self.eta, 2 * self.updates + 1)
        return self._schedule[self.updates]

    def share_bound(self) -> float:
        """Return half of a bound on sum_i abs(mu_i - mu'_i) for the laws as doubles, over neighbouring samples.

        It is ``s + 2 (g + e)`` with s from :meth:`sampling_bound`. The law is a function of the number ln c, at which
        it is cut. If ln c is off by g, the law moves by at most 2 g in L1 norm, since each min(c w_i, 1) changes by a
        factor of at most e^g, all in one direction. If its weights are off by a factor of 1 + e, it moves by 2 e. For
        neighbouring samples that is together 4 (g + e), half of which is 2 (g + e).

        Errors in units of 2^-52, for L scores (L <= t parts + 1, and L <= n) and exponents up to eta t: the sum in
        :func:`project` has 4 per score and those of its exponents, and its logarithm, below 64, has as much.
        Subtracting scores and multiplying by eta adds 2 eta t, and the exponential 1. So g + e is below 4 L + 4 eta t +
        300; the code takes more than twice that. A weight with an exponent below -700 is 0 or negligible.
        """
        scores = min(self.updates * self._parts + 1, self.n)
        error = (8.0 * (scores + self.eta * self.updates) + 1024.0) * 2.0**-52
        return min(up(self.sampling_bound() + 2.0 * error), 1.0)


@njit
def project(cumulative_losses: Floats, people: Indices, eta: float, budget: float) -> float:
    """Return the score from which on the kappa-dense projection is flat; above the highest score, none is capped.

    With ``w = exp(eta * score)`` and c the smallest number with ``sum people * min(c w, 1) = budget`` (kappa n), that
    is ``cut = -ln(c) / eta``. Computations are relative to the running maximum, so no weight underflows. Scores ascend,
    and at least one record has each of them.
    """
    above = 0.0
    for i in range(len(people)):
        above += people[i]
    cut = float(cumulative_losses[0])
    below = 0.0  # sum of the weights up to i, relative to the weight of i
    for i in range(len(cumulative_losses)):
        if i > 0:
            below *= exp(eta * (cumulative_losses[i - 1] - cumulative_losses[i]))
        below += people[i]
        above -= people[i]
        # All above i at 1, the rest scaled to fill the budget: consistent iff the scaled weight of i is at
        # most 1. The highest such i is the solution; the test is monotone.
        if budget - above <= 0.0:
            continue
        if budget - above > below:
            break
        cut = cumulative_losses[i] + log(below / (budget - above)) / eta
        if i + 1 < len(cumulative_losses):
            cut = min(cut, cumulative_losses[i + 1])
    return float(cut)
