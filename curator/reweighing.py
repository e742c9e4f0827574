"""The curator's weights: lazy multiplicative weights, projected so that none exceeds 1/(kappa n)."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from common.arrays import AnyArray, Floats, Indices
from common.errors import BadData, BadScenario
from common.kernels import njit
from common.privacy.calibration import sampling_schedule
from common.records import Records
from curator.sampling import Density, Sampler

LEAST_FLAT = 10
"""kappa n must exceed this (docs/errata.md, item 10): fewer people than that would carry all the weight."""
HEADROOM = 2.0**-24
"""The projection aims this share above kappa n, so that rounding later ends below the cap 1/(kappa n)."""
_COUNTS = (np.uint8, np.uint16, np.uint32)


class Reweighing:
    """Weights of n records after t reweighs, and the distribution mu that they give.

    ``log w_i = -eta * sum_{r <= t} (1 - loss_r(i))``; only differences matter, so the *score* ``sum_r
    loss_r(i)`` is all that is kept: ``w_i`` is proportional to ``exp(eta * score_i)``. 0/1 losses keep an
    exact integer count of mistakes (one byte a record up to 255 reweighs), real losses a float64.

    mu is the kappa-dense projection (Kohen & Sheffet, equation (2) and Algorithm 2)

        mu_i = min(c w_i, 1) / (kappa n),  c the smallest with sum_i min(c w_i, 1) = kappa n.

    The weights are *lazy*: the projection is computed from them and never written back. That is a privacy
    requirement: with neighbouring samples (one record replaced) lazy weights differ in one entry, which
    moves all other mu_j in one common direction, and so TV(mu, mu') = max(mu_i, mu'_i) <= 1/(kappa n).
    Reweighing the projected weights instead reaches several times that (9 times in benchmarks/audit.py).

    Parameters
    ----------
    n
        Number of records (public).
    kappa
        In (0, 1] with kappa n > 10; None for the null projection of Algorithm 1, mu_i proportional to w_i.
    eta
        Learning rate, positive.

    Raises
    ------
    BadScenario
        If a parameter is outside its range.
    """

    def __init__(self, n: int, kappa: float | None, eta: float) -> None:
        if n < 1:
            raise BadScenario(f"a sample must hold at least one record, found n = {n}")
        if kappa is not None and not 0.0 < kappa <= 1.0:
            raise BadScenario(f"kappa must be in (0, 1], found {kappa}")
        if kappa is not None and kappa * n <= LEAST_FLAT:
            raise BadScenario(
                f"kappa n must exceed {LEAST_FLAT}, found {kappa} * {n} = {kappa * n:g}: enlarge the sample"
            )
        if not (math.isfinite(eta) and eta > 0.0):
            raise BadScenario(f"eta must be positive, found {eta}")
        self.n = n
        self.kappa = kappa
        self.eta = eta
        self._updates = 0
        self._scores: AnyArray = np.zeros(n, dtype=np.uint8)
        self._people: Indices | None = np.array([n], dtype=np.int64)

    def __repr__(self) -> str:
        return f"Reweighing(n={self.n}, kappa={self.kappa}, eta={self.eta}, updates={self.updates})"

    @classmethod
    def restore(cls, n: int, kappa: float | None, eta: float, updates: int, state: AnyArray) -> Self:
        """Rebuild from what :meth:`state` returned after that many updates.

        Raises
        ------
        BadData
            If the state cannot be one of n records after that many updates.
        """
        restored = cls(n, kappa, eta)
        if state.shape != (n,):
            raise BadData(f"stored weights of shape {state.shape} are not those of {n} records")
        if state.dtype not in (*map(np.dtype, _COUNTS), np.dtype(np.float64)):
            raise BadData(f"stored weights must be counts or float64, found {state.dtype}")
        if updates < 0 or not (float(state.min()) >= 0.0 and float(state.max()) <= updates):
            raise BadData(f"stored weights lie outside [0, {updates}], which {updates} updates cannot give")
        restored._updates = updates
        restored._scores = np.array(state)
        restored._people = None if state.dtype == np.float64 else _histogram(restored._scores, updates + 1)
        return restored

    @property
    def updates(self) -> int:
        """Number of reweighs so far, t."""
        return self._updates

    def state(self) -> AnyArray:
        """Return the scores, shape (n,), to be stored (private; a copy)."""
        return self._scores.copy()

    def update(self, losses: AnyArray) -> None:
        """Multiply each weight by ``exp(-eta (1 - loss_i))``.

        Parameters
        ----------
        losses
            Shape (n,). uint8 or bool: 0/1 losses. float: clamped to [0, 1], with NaN read as 0.

        Raises
        ------
        BadData
            If the shape or type is another, or an integer loss is neither 0 nor 1. Nothing changes then.
        """
        if losses.shape != (self.n,):
            raise BadData(f"losses of shape {losses.shape} are not those of {self.n} records")
        if losses.dtype == np.bool_:
            losses = losses.view(np.uint8)
        binary = losses.dtype == np.uint8
        if not binary and not np.issubdtype(losses.dtype, np.floating):
            raise BadData(f"losses must be uint8, bool or float, found {losses.dtype}")
        if binary and int(losses.max()) > 1:
            raise BadData("integer losses must be 0 or 1, found a greater one")
        if self._people is not None and binary:
            self._scores = self._scores.astype(_least_count(self._updates + 1), copy=False)
            self._people = np.append(self._people, 0)
            _count(self._scores, losses, self._people)
        else:
            self._people = None
            self._scores = self._scores.astype(np.float64, copy=False)
            _add(self._scores, losses)
        self._updates += 1

    def density(self) -> Density:
        """Return mu as it stands. It shares memory with the weights: done with it before the next update."""
        return Density(self._scores, self.eta, self._cut(), self._people)

    def _cut(self) -> float:
        if self.kappa is None:
            return math.inf
        budget = min(self.kappa * self.n * (1.0 + HEADROOM), float(self.n))
        if self._people is None:
            ones = np.broadcast_to(np.int64(1), self._scores.shape)
            return project(np.sort(self._scores), ones, self.eta, budget)
        levels = np.flatnonzero(self._people)
        return project(levels.astype(np.float64), self._people[levels], self.eta, budget)

    def sampler(self, records: Records) -> Sampler:
        """Return draws from mu over the n records that the losses were computed on."""
        return Sampler(records, self.density())

    def sampling_bound(self) -> float:
        """Return s, a bound (rounded up) on the total variation between mu and mu' of neighbouring samples.

        ``s_t = min(e^{eta t} / (n - 1 + e^{eta t}), 1 / (kappa n))``: after t reweighs with losses in [0, 1]
        two weights differ by a factor of e^{eta t} at most, and flattening only lowers the largest mu_i.
        """
        if self.kappa is not None:
            return sampling_schedule(self.n, self.kappa, self.eta, self._updates + 1)[-1]
        spread = 1.0 / (1.0 + (self.n - 1) * math.exp(-self.eta * self._updates))
        return min(spread * (1.0 + 2.0**-40), 1.0)


def _least_count(most: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type for counts up to ``most``."""
    return next(count for count in _COUNTS if most <= np.iinfo(count).max)


@njit
def project(scores: Floats, people: Indices, eta: float, budget: float) -> float:
    """Find the score from which on the kappa-dense projection is flat.

    With ``w = exp(eta * score)`` and c the smallest number with ``sum people * min(c w, 1) = budget``, that
    is ``cut = -ln(c) / eta``; all is done relative to the running maximum, so no weight underflows.

    Parameters
    ----------
    scores
        Shape (L,), ascending.
    people
        Shape (L,), how many records have each score, each at least 1.
    eta
        Positive.
    budget
        kappa n, in (0, sum of people].

    Returns
    -------
    The cut. It may lie above the highest score: then nobody is capped.
    """
    above = 0.0
    for i in range(len(people)):
        above += people[i]
    cut = float(scores[0])
    below = 0.0  # sum of the weights up to i, relative to the weight of i
    for i in range(len(scores)):
        if i > 0:
            below *= np.exp(eta * (scores[i - 1] - scores[i]))
        below += people[i]
        above -= people[i]
        # All above i at 1, the rest scaled to fill the budget: consistent iff the scaled weight of i is at
        # most 1. The highest such i is the solution; the test is monotone.
        if budget - above <= 0.0:
            continue
        if budget - above > below:
            break
        cut = scores[i] + np.log(below / (budget - above)) / eta
        if i + 1 < len(scores):
            cut = min(cut, scores[i + 1])
    return float(cut)


@njit
def _histogram(scores: AnyArray, levels: int) -> Indices:
    people = np.zeros(levels, dtype=np.int64)
    for score in scores:
        people[score] += 1
    return people


@njit
def _count(scores: AnyArray, losses: AnyArray, people: Indices) -> None:
    """Add 0/1 losses to the counts, and keep the number of records at each count."""
    for i in range(len(scores)):
        if losses[i]:
            people[scores[i]] -= 1
            scores[i] += 1
            people[scores[i]] += 1


@njit
def _add(scores: Floats, losses: AnyArray) -> None:
    """Add losses clamped to [0, 1]; NaN fails the comparison, and counts as 0."""
    for i in range(len(scores)):
        if losses[i] > 0:
            scores[i] += min(float(losses[i]), 1.0)
