"""The curator's weights: lazy multiplicative weights, projected so that none exceeds 1/(kappa n)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput, BadScenario
from common.local.losses import Weighing
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.loops import exp, log
from common.privacy.budget import MIN_SUPPORT, sampling_schedule
from common.privacy.rounding import up
from curator.sample.base import LocalSample, Sample
from curator.sample.sampling import Density, Sampler
from curator.sample.shard import MAX_CUMULATIVE_LOSS, ScoreHistogram, widened

HEADROOM = 2.0**-20
"""The projection aims this share above kappa n, so that what rounding does later ends below the cap 1/(kappa n).

Rounding moves draws by 2^-52 in total variation at most; the headroom is 2^-20/(kappa n), more for every n below 2^32.
"""


class Reweighing:
    """The law of n records' weights after t reweighs, and the distribution mu that they give.

    ``log w_i = -eta * sum_{r <= t} (1 - loss_r(i))``; only differences matter, so the *score* ``sum_r loss_r(i)`` is
    all that is kept, beside the record: ``w_i`` is proportional to ``exp(eta * score_i)``. Scores are whole numbers:
    counts of mistakes, or, from the first other loss on, of 1024ths (:mod:`common.local.losses`). How many records have
    each is all that the projection needs.

    mu is the kappa-dense projection (Kohen & Sheffet, equation (2) and Algorithm 2)

        mu_i = min(c w_i, 1) / (kappa n),  c the smallest with sum_i min(c w_i, 1) = kappa n.

    The weights are *lazy*: the projection is never written back. That is a privacy requirement: with neighbouring
    samples (one record replaced) lazy weights differ in one entry, which moves all other mu_j in one common direction,
    and so TV(mu, mu') = max(mu_i, mu'_i) <= 1/(kappa n); otherwise it is several times that (docs/corrections.md).

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
        """Set a sample's scores to those of each shard after these reweighs, and return the law that belongs to them.

        Scores that cannot be those are a BadData.
        """
        restored = cls(len(sample), kappa, eta)
        grains = [weighing.grain for weighing in reweighs]
        restored.updates, restored._parts = len(grains), max(grains, default=1)
        restored._histogram = sample.restore(cumulative_losses, restored.updates * restored._parts)
        return restored

    def update(self, sample: Sample, weighing: Weighing) -> None:
        """Multiply each weight by ``exp(-eta (1 - loss_i))``, loss_i what ``weighing`` says of record i.

        If it fails half-way, the sample's scores are in between: :meth:`restore` them. Scores beyond 32 bits (2^22
        reweighs by real losses) are a BadInput, and change nothing.
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
        """Return how many more bytes a record such a reweigh needs for a while: 0 if counts stay as wide."""
        parts = max(self._parts, weighing.grain)
        return widened(self.updates * self._parts, (self.updates + 1) * parts)

    def density(self) -> Density:
        """Return mu as it stands."""
        return Density(self._histogram, self.eta / self._parts, self._cut())

    def _cut(self) -> float:
        if self.kappa is None:
            return math.inf
        budget = min(self.kappa * self.n * (1.0 + HEADROOM), float(self.n))
        levels, people = self._histogram.levels, self._histogram.people
        return project(levels.astype(np.float64), people, self.eta / self._parts, budget)

    def sampler(self, sample: Sample | Records) -> Sampler:
        """Return draws from mu over the sample that was reweighed; records alone are one that never was."""
        held = LocalSample.of(sample) if isinstance(sample, Records) else sample
        return Sampler(held, self.density(), self.share_bound())

    def sampling_bound(self) -> float:
        """Return s, a bound (rounded up) on the total variation between mu and mu' of neighbouring samples.

        ``s_t = min(e^{eta t} / (n - 1 + e^{eta t}), 1 / (kappa n))``: after t reweighs with losses in [0, 1]
        two weights differ by a factor of e^{eta t} at most, and flattening only lowers the largest mu_i.
        """
        if self.kappa is None:
            spread = 1.0 / (1.0 + (self.n - 1) * math.exp(-self.eta * self.updates))
            return min(spread * (1.0 + 2.0**-40), 1.0)
        if self.updates >= len(self._schedule):
            self._schedule = sampling_schedule(self.n, self.kappa, self.eta, 2 * self.updates + 1)
        return self._schedule[self.updates]

    def share_bound(self) -> float:
        """Return half of a bound on sum_i abs(mu_i - mu'_i) for the laws as doubles, over neighbouring samples.

        ``s + 2 (g + e)`` with s from :meth:`sampling_bound`. The law is a function of the number ln c, at which it is
        cut, and moves by 2 g in L1 norm, at most, where ln c is off by g: each min(c w_i, 1) then changes by a factor
        of e^g at most, all in one direction. It moves by 2 e where its weights are off by a factor of 1 + e. For
        neighbouring samples that is 4 (g + e) together, half of it 2 (g + e).

        In units of 2^-52, for L scores (L <= t parts + 1, and L <= n) and exponents up to eta t: the sum of
        :func:`project` errs by 4 a score and by its exponents; its logarithm, below 64, by as much; subtracting scores
        and multiplying by eta by 2 eta t, the exponential by 1. So g + e is below 4 L + 4 eta t + 300; twice that and
        more is taken. A weight whose exponent is below -700 is 0, or as good as that.
        """
        scores = min(self.updates * self._parts + 1, self.n)
        error = (8.0 * (scores + self.eta * self.updates) + 1024.0) * 2.0**-52
        return min(up(self.sampling_bound() + 2.0 * error), 1.0)


@njit
def project(cumulative_losses: Floats, people: Indices, eta: float, budget: float) -> float:
    """Find the score from which on the kappa-dense projection is flat; above the highest score nobody is capped.

    With ``w = exp(eta * score)`` and c the smallest number with ``sum people * min(c w, 1) = budget`` (kappa n), that
    is ``cut = -ln(c) / eta``; all is done relative to the running maximum, so no weight underflows. Scores ascend, and
    each is that of at least one of the people.
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
