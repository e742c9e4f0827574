"""A secret parity of boolean features, some of which are biased in the source: Appendix B of Kohen & Sheffet."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats, Indices
from common.numerics import counter
from common.people.distributions.base import DISTRIBUTIONS, SIDES, Distribution
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.hypotheses.parity import Parity
from common.vocabulary.records import Records


@DISTRIBUTIONS.register("biased-parity")
class BiasedParity(Distribution):
    """People with d independent 0/1 features, labelled +1 iff an odd number of the ``secret`` ones is 1.

    T is uniform: every feature is a fair coin. Under S the first ``biased`` features are 1 with probability
    ``rate`` instead. With a single biased feature of a small rate, S is nearly as bad as chi^2(T||S) allows: a
    record with that feature set, without which the rank is not full, comes once in 4 X (1 - rate) records, and no
    more often than once in 4 X is what Claim B.2 promises.

    Attributes
    ----------
    side
        Draw from S (``source``) or T (``target``).
    d
        Number of features, 1 <= d <= 4096.
    secret
        The features of the parity, strictly increasing.
    biased
        How many features are biased under S, 0 to d.
    rate
        How often each of these is 1 under S.
    """

    name: Literal["biased-parity"] = "biased-parity"
    side: Literal["source", "target"]
    d: int = Field(ge=1, le=4096)
    secret: FeatureSet
    biased: int = Field(default=0, ge=0)
    rate: float = Field(default=0.5, gt=0, lt=1)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both sides, small."""
        return tuple(cls(side=side, d=70, secret=(0, 3, 66), biased=2, rate=0.2) for side in SIDES)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.secret and self.secret[-1] >= self.d:
            raise ValueError(f"feature {self.secret[-1]} of the secret is not in 0..{self.d - 1}")
        if self.biased > self.d:
            raise ValueError(f"biased = {self.biased} must be at most d = {self.d}")
        return self

    @property
    def dimension(self) -> int:
        """Number of features, d."""
        return self.d

    @property
    def coordinate_bound(self) -> float:
        """Features are 0 or 1."""
        return 1.0

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1 = (4 rate (1 - rate))^-biased."""
        return float((4.0 * self.rate * (1.0 - self.rate)) ** -self.biased)

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS = (2 min(rate, 1 - rate))^-biased."""
        return float((2.0 * min(self.rate, 1.0 - self.rate)) ** -self.biased)

    def draw(self, seed: int, people: Indices) -> Records:
        """Return features of shape (n, d), uint8 in {0, 1}, and labels."""
        features = np.empty((len(people), self.d), dtype=np.uint8)
        special = np.arange(self.biased if self.side == "source" else 0)
        key = counter.stream(seed, 0 if self.side == "source" else 1)
        counter.fill_bits(key, people, special, np.full(len(special), self.rate), features)
        return Records(features, Parity(features=self.secret).predict(features))

    def density_ratios(self, seed: int, people: Indices) -> Floats:
        """Return the importance weights dT/dS of the people that :meth:`draw` returns, shape (n,)."""
        ones = self.draw(seed, people).features[:, : self.biased].sum(axis=1)
        return np.asarray((0.5 / self.rate) ** ones * (0.5 / (1.0 - self.rate)) ** (self.biased - ones))
