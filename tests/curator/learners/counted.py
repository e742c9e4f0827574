"""A sampler that counts: how often a learner drew from mu, and how often it went through the sample itself."""

from collections.abc import Iterator

from common.core.arrays import Indices
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.sample.base import LocalSample
from curator.weights.reweighing import Reweighing
from curator.weights.sampling import Sampler


class CountingSampler(Sampler):
    """Draws as a :class:`Sampler` does, whose other ways to draw all end in these.

    Attributes:
        drawn: Records that were drawn from mu, in all.
        passes: How often the sample itself was read.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(LocalSample.of(records), Reweighing(len(records), 0.5, 0.1).density())
        self.drawn = 0
        self.passes = 0

    def indices(self, count: int, source: RandomSource) -> Indices:
        self.drawn += count
        return super().indices(count, source)

    def draws(self, count: int, source: RandomSource) -> Records:
        self.drawn += count
        return super().draws(count, source)

    def everybody(self) -> Iterator[Records]:
        self.passes += 1
        return super().everybody()
