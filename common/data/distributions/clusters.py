"""Points in [0, 1]^d whose distribution differs between S and T: classes with other shares, a response that drifts."""

import math
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from common.core.arrays import Floats, Indices, Labels, Singles
from common.data.distributions.base import DISTRIBUTIONS, PairedDistribution, UnitDistribution, of_both_sides
from common.local.records import Records
from common.numerics import counter
from common.numerics.elementary import cosine
from common.numerics.kernels import njit


class _Classes(UnitDistribution, PairedDistribution):
    """Points whose class is given by C one-hot features after d others; the label is +1 for class 0, else -1."""

    feature_type: ClassVar = np.float32
    d: int = Field(ge=2, lt=1 << 15)
    classes: int = Field(ge=2, le=64)

    @property
    def dimension(self) -> int:
        return self.d + self.classes

    @property
    def norm_bound(self) -> float:
        return math.sqrt(self.d + 1)


@DISTRIBUTIONS.register("class-clusters")
class ClassClusters(_Classes):
    """C classes, each a Gaussian cluster in [0, 1]^d; the class stands in C one-hot features behind the d others.

    ::

        x = clip(centre_c + spread z, 0, 1),     z ~ N(0, I),     centre_cj = 1/2 + radius cos(2 pi c/C + pi j/d)

    The centres lie on a circle, so a half-space separates each class from all others, up to the noise. Classes are
    equally frequent in T; in S, class c has a share proportional to ``skew^-c``. The label is +1 for class 0, else -1.
    """

    name: Literal["class-clusters"] = "class-clusters"
    radius: float = Field(default=0.3, gt=0, le=0.5)
    spread: float = Field(default=0.1, gt=0, le=1)
    skew: float = Field(default=1.0, ge=1, le=10)

    examples: ClassVar = of_both_sides(d=5, classes=3, skew=1.5)

    @cached_property
    def centres(self) -> Floats:
        of_class = 2.0 * math.pi * np.arange(self.classes) / self.classes
        of_coordinate = math.pi * np.arange(self.d) / self.d
        return np.asarray(0.5 + self.radius * cosine(of_class[:, None] + of_coordinate), dtype=np.float64)

    @cached_property
    def shares(self) -> Floats:
        """The share of each class on this side, shape (C,)."""
        return self._shares(self.skew if self.side == "source" else 1.0)

    def _shares(self, skew: float) -> Floats:
        weights = skew ** -np.arange(self.classes, dtype=np.float64)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @cached_property
    def _ratios(self) -> Floats:
        return self._shares(1.0) / self._shares(self.skew)

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS."""
        return float(self._ratios.max())

    def chi_squared(self) -> float:
        """Return E_T[dT/dS] = chi^2(T, S) + 1."""
        return float(self._ratios.mean())

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.zeros((len(people), self.dimension), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        _draw_classes(self.key(seed), people, self.centres, self.spread, np.cumsum(self.shares), features, labels)
        return Records(features, labels)


@njit
def _draw_classes(
    key: np.uint64, people: Indices, centres: Floats, spread: float, up_to: Floats, features: Singles, labels: Labels
) -> None:
    classes, d = centres.shape
    for i in range(len(people)):
        begin, row = counter.start(key, people[i]), features[i]
        chance, own = counter.uniform(begin, d), 0
        while own < classes - 1 and chance >= up_to[own]:
            own += 1
        for j in range(d):
            row[j] = min(max(centres[own, j] + spread * counter.quantile(counter.uniform(begin, j)), 0.0), 1.0)
        row[d + own] = 1.0
        labels[i] = 1 if own == 0 else -1


@DISTRIBUTIONS.register("drifting-line")
class DriftingLine(UnitDistribution, PairedDistribution):
    """d inputs in [0, 1] and, as the last feature, a response in [0, 1]; the label is +1 where that is above 1/2.

    ::

        response = clip(1/2 + <w, x - 1/2> + noise z, 0, 1),     z ~ N(0, 1)

    On the target side inputs are uniform and w_j is proportional to cos(j). On the source side the first half of the
    inputs are ``u^skew`` for a uniform u (covariate shift), and w_j is proportional to cos(j + drift), in radians (the
    labelling changes, too, which reweighing by the inputs alone cannot correct). On both sides |w| = ``slope``.
    ``survey: other`` gives the same people other features: the response first, then d features 1 - x_d, ..., 1 - x_1,
    and then an irrelevant one.
    """

    feature_type: ClassVar = np.float32
    name: Literal["drifting-line"] = "drifting-line"
    d: int = Field(ge=1, lt=1 << 16)
    slope: float = Field(default=0.8, gt=0, le=10)
    noise: float = Field(default=0.05, ge=0, le=1)
    drift: float = Field(default=0.5, ge=-4, le=4)
    skew: float = Field(default=2.0, gt=0, le=100)
    survey: Literal["own", "other"] = Field(default="own", exclude_if=lambda survey: survey == "own")

    examples: ClassVar = of_both_sides(d=5)

    @property
    def dimension(self) -> int:
        return self.d + 1 + (self.survey == "other")

    def chi_squared(self) -> float:
        """Return X = chi^2(T||S) + 1: k^2/(2k - 1), k = ``skew``, to the power of the number of shifted inputs.

        dT/dS = k u^(1 - 1/k) in each of these. Infinite if the two sides' labelling differs, or k <= 1/2.
        """
        if self.drift or self.skew <= 0.5:
            return math.inf
        return float((self.skew**2 / (2.0 * self.skew - 1.0)) ** ((self.d + 1) // 2))

    def supremum(self) -> float:
        """Return D_inf = sup dT/dS, infinite if the two sides' labelling differs, or the source's inputs are higher."""
        return math.inf if self.drift or self.skew < 1.0 else float(self.skew ** ((self.d + 1) // 2))

    @cached_property
    def weights(self) -> Floats:
        """The side's w, shape (d,)."""
        direction = cosine(np.arange(self.d) + (self.drift if self.side == "source" else 0.0))
        return np.asarray(self.slope * direction / math.sqrt(np.square(direction).sum()), dtype=np.float64)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.empty((len(people), self.d + 1), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        skew = self.skew if self.side == "source" else 1.0
        _draw(self.key(seed), people, self.weights, skew, self.noise, features, labels)
        if self.survey == "other":
            spare = np.full(len(people), 0.5, dtype=np.float32)
            features = np.column_stack([features[:, self.d], 1.0 - features[:, self.d - 1 :: -1], spare])
        return Records(features, labels)


@njit
def _draw(
    key: np.uint64, people: Indices, weights: Floats, skew: float, noise: float, features: Singles, labels: Labels
) -> None:
    d = len(weights)
    for i in range(len(people)):
        begin, row = counter.start(key, people[i]), features[i]
        response = 0.5 + noise * counter.quantile(counter.uniform(begin, d))
        for j in range(d):
            x = counter.uniform(begin, j)
            if 2 * j < d:
                x = x**skew
            row[j] = x
            response += weights[j] * (x - 0.5)
        row[d] = min(max(response, 0.0), 1.0)
        labels[i] = 1 if row[d] > 0.5 else -1


@DISTRIBUTIONS.register("class-rings")
class ClassRings(_Classes):
    """C classes in rings around a centre, d inputs in [0, 1]; the class stands in C one-hot features behind them.

    ::

        class = number of the radii sqrt(c/(pi C)), c = 1 .. C - 1, that |(x_1, x_2) - centre| exceeds

    On the target side inputs are uniform and the centre is (1/2, 1/2): the first classes have the share 1/C each. On
    the source side inputs are ``u^skew``, and the centre is (1/2 + shift, 1/2 - shift). No half-space separates a ring
    from the region around it, nor does any number of linear scores. The label is +1 for class 0, else -1.
    """

    name: Literal["class-rings"] = "class-rings"
    d: int = Field(default=2, ge=2, lt=1 << 15)
    classes: int = Field(default=3, ge=2, le=64)
    shift: float = Field(default=0.1, ge=-0.5, le=0.5)
    skew: float = Field(default=1.5, gt=0, le=100)

    examples: ClassVar = of_both_sides(d=3)

    def draw(self, seed: int, people: Indices) -> Records:
        features = np.zeros((len(people), self.dimension), dtype=np.float32)
        labels = np.empty(len(people), dtype=np.int8)
        displacement = (self.shift, self.skew) if self.side == "source" else (0.0, 1.0)
        _draw_rings(self.key(seed), people, self.d, self.classes, *displacement, features, labels)
        return Records(features, labels)


@njit
def _draw_rings(
    key: np.uint64, people: Indices, d: int, classes: int, shift: float, skew: float, features: Singles, labels: Labels
) -> None:
    for i in range(len(people)):
        begin, row, own = counter.start(key, people[i]), features[i], 0
        for j in range(d):
            row[j] = counter.uniform(begin, j) ** skew
        squared = (row[0] - 0.5 - shift) ** 2 + (row[1] - 0.5 + shift) ** 2
        while own < classes - 1 and squared * math.pi * classes > own + 1:
            own += 1
        row[d + own] = 1.0
        labels[i] = 1 if own == 0 else -1
