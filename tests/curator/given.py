"""Samples on which every round's losses are what a test wants them to be."""

from itertools import pairwise

import numpy as np

from common.core.arrays import AnyArray, Words
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.hypotheses.rules import Conjunction
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from curator.sample.rows import SingleRows


def losses_of(table: AnyArray) -> Records:
    """Return records whose loss under the hypothesis of round t is ``table[t]``: bits, or multiples of 2^-10."""
    rows = np.ascontiguousarray(1 - table.T)
    features = rows if table.dtype == np.uint8 else rows.astype(np.float32)
    return Records(features, np.ones(len(features), dtype=np.int8))


def hypothesis(t: int, rounds: int, *, real: bool) -> Hypothesis:
    """Return the hypothesis of round t: feature t is the margin, or the prediction."""
    if real:
        return Linear(weights=tuple(float(t == j) for j in range(rounds)), threshold=0.0)
    return Conjunction(features=(t,))


def split(records: Records, *cuts: int) -> LocalSample:
    """Return the records in shards that begin at 0 and at the cuts."""
    ends = [0, *cuts, len(records)]
    parts = [records.take(np.arange(a, b)) for a, b in pairwise(ends)]
    return LocalSample([SingleRows(part) for part in parts])


def reweighed(table: AnyArray, kappa: float | None, eta: float) -> tuple[Reweighing, LocalSample]:
    """Return the weights after as many rounds as the table has rows, and the sample."""
    sample = LocalSample.of(losses_of(table))
    weights = Reweighing(len(sample), kappa, eta)
    real = table.dtype != np.uint8
    for t in range(len(table)):
        weights.update(sample, HypothesisLoss(hypothesis(t, len(table), real=real), "hinge" if real else "zero-one"))
    return weights, sample


def cumulative_losses(sample: LocalSample) -> AnyArray:
    return np.concatenate(list(sample.cumulative_losses()))


def law(weights: Reweighing, sample: LocalSample) -> AnyArray:
    """Return mu up to a factor, by record: 1 where it is largest."""
    return weights.density().relative(cumulative_losses(sample).astype(np.int64))


class Counted(RandomSource):
    """A source that counts the words of all that are derived from it."""

    def __init__(self, key: bytes, drawn: list[int]) -> None:
        super().__init__(key, simulated=True)
        self.drawn = drawn

    def words(self, count: int) -> Words:
        self.drawn.append(count)
        return super().words(count)

    def derive(self, *labels: str | int) -> RandomSource:
        return Counted(super().derive(*labels)._key, self.drawn)
