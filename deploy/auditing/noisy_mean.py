"""A learner small enough to reason about, for tests of what wraps learners: a noisy mean, and a threshold beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray
from common.core.registry import Registry
from common.learners.base import SETTINGS
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.local.records import Records
from common.privacy.events import Event, Gaussian
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.sums import ClippedSum
from curator.metering.access import Access


class NoisyMean(Learner):
    """The mean of label times feature over the sample itself, clipped to [-1, 1], with noise; and a given threshold."""

    name: Literal["noisy-mean"] = "noisy-mean"
    mu: float = Field(gt=0)
    threshold: float = 0.0
    releases: int = 1

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one with little noise."""
        return (cls(mu=2.0),)

    def event(self, tv_bound: float) -> Event:
        """One release."""
        return Gaussian(count=self.releases, mu=self.mu)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Average, and add noise of 2 sqrt(d)/(n mu)."""
        width = access.dimension
        noisy = access.release(ClippedSum(math.sqrt(width), width, self.mu), self._signed)
        return Linear(weights=tuple((noisy / access.people).tolist()), threshold=self.threshold)

    @staticmethod
    def _signed(records: Records) -> AnyArray:
        return np.asarray(records.labels[:, None] * np.clip(records.features.astype(np.float64), -1, 1))


@contextmanager
def registered() -> Iterator[None]:
    """Have the learner in the vocabulary for a while."""
    vocabularies: tuple[Registry[Any], ...] = (SETTINGS, LEARNERS)
    for vocabulary in vocabularies:
        vocabulary.names()
        vocabulary._entries["noisy-mean"] = NoisyMean
    try:
        yield
    finally:
        for vocabulary in vocabularies:
            del vocabulary._entries["noisy-mean"]
