"""A_stab: release the exact value of a function if a few replaced records cannot change it, and nothing otherwise.

Smith and Thakurta (2013); Algorithm 1 of Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning" (NeurIPS
2018). It takes a function f of a data set and its *distance to instability*: dist_f(D) is the greatest k such that
replacing any k records does not change f(D). That is a whole number, and it changes by at most 1 when a record is
replaced. If it is at least 1, no neighbour has another value. The theorem needs no more.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from common.core import canonical
from common.core.arrays import Indices
from common.core.errors import BadInput
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Release
from common.privacy.theorems.votes import stability_level
from curator.mechanisms.base import HOME, CentralMechanism, ValueOfPerson, central
from curator.mechanisms.counts import geometric_noise

T = TypeVar("T")
A = TypeVar("A")
FARTHEST = 1 << 38  # distances are cut to this number, which exceeds any number of people


def a_stab(value: A, distance: float, epsilon: float, delta: float, source: RandomSource) -> A | None:
    """Return the value of a function on a data set, or None if its distance to instability seems too small.

    ::

        value if floor(distance) + Z > Gamma,   Z two-sided geometric noise of epsilon,   P(Z > Gamma) <= delta

    *Theorem 2.4.* It is (epsilon, delta)-DP if the distance changes by at most 1 when a record is replaced, and is 0 if
    a neighbour has another value. *Proof.* Rounding down keeps both properties. If both neighbours have the same value,
    the release is post-processing of a number of sensitivity 1. Otherwise both distances are 0, and a value is released
    with probability P(Z > Gamma) <= delta. In the paper Gamma is ln(1/delta)/epsilon, for Laplace noise; the least that
    suffices for geometric noise is never larger (:func:`~common.privacy.theorems.votes.stability_level`).

    *Theorem 2.5.* The value is released with probability at least 1 - beta if the distance is at least
    :func:`~common.privacy.theorems.votes.stability_margin`.

    Args:
        value: f(D), anything.
        distance: dist_f(D), at least 0; the caller must prove the two properties above.
        epsilon: From 0.001 to 30.
        delta: In (0, 1).

    Raises:
        BadInput: If a number is outside its range.
    """
    if not (0.001 <= epsilon <= 30.0 and 0.0 < delta < 1.0 and distance >= 0.0):
        raise BadInput(
            f"A_stab wants epsilon from 0.001 to 30, 0 < delta < 1 and a distance of at least 0, found {epsilon:g}, "
            f"{delta:g} and {distance:g}"
        )
    noise = int(geometric_noise(1, epsilon, source)[0])
    return value if math.floor(min(distance, FARTHEST)) + noise > stability_level(epsilon, delta) else None


class StableFunction(ValueOfPerson[T], Generic[T, A]):
    """A function of all people's values, computed together with its distance to instability; part of the curator.

    The contract suite tests every data set of a few people with all its neighbours.
    """

    @abstractmethod
    def of(self, values: list[T]) -> tuple[A, int]:
        """Return f and dist_f of values that come in blocks, at least one."""


def winners(counts: Indices) -> Indices:
    """Return the index of the largest count of each row, shape (m,), the first in a tie."""
    return np.asarray(counts.argmax(axis=1), dtype=np.int64)


def distances(counts: Indices, touched: int = 1) -> Indices:
    """Return the distance to instability of each winner, shape (m,), int64, in records; counts are not negative.

    ::

        dist = floor(max(0, ceil((c1 - c2)/2) - 1) / touched)

    with c1 and c2 the greatest and the second greatest of any number of counts in a row. A changed vote lowers one
    count by 1 and raises another, which moves c1 - c2 by at most 2. One record changes at most ``touched`` votes, so
    dist has sensitivity 1. If dist >= 1, no record changes the winner, however ties are broken: dist records can be
    replaced without changing it. The paper's c1 - c2 - 1 (Algorithm 2) has sensitivity 2.
    """
    top = np.sort(np.pad(counts, ((0, 0), (1, 0))), axis=1)[:, -2:]
    changes = np.maximum(0, (top[:, 1] - top[:, 0] + 1) // 2 - 1)
    return np.asarray(changes // touched, dtype=np.int64)


def plurality(counts: list[int]) -> tuple[int, int]:
    """Return the index of the largest count, and its distance to instability."""
    row = np.array([counts], dtype=np.int64)
    return int(winners(row)[0]), int(distances(row)[0])


class _NumberFunction(StableFunction[Indices, int]):
    """A function of one whole number per person."""

    def person(self, value: Any) -> Indices:
        number = np.asarray(value, dtype=np.float64).reshape(-1)
        if number.shape != (1,) or not abs(number[0]) < 2.0**53 or number[0] != np.floor(number[0]):
            raise ValueError(f"one whole number is wanted, found shape {np.shape(value)}")
        return number.astype(np.int64)

    @property
    def neutral(self) -> Indices:
        return np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class MostCommon(_NumberFunction):
    """The most common number, the smallest in a tie."""

    def of(self, values: list[Indices]) -> tuple[int, int]:
        numbers, counts = np.unique(np.concatenate(values), return_counts=True)
        index, distance = plurality(counts.tolist())
        return int(numbers[index]), distance


@dataclass(frozen=True)
class ExactQuantile(_NumberFunction):
    """The number of rank ceil(share n) among all: the median for a share of 1/2.

    With x sorted, replacing k records can change the result to any of x[r-k], ..., x[r+k], or to a number beyond all of
    them if such a rank does not exist. So dist = max{k: x[r-k] = x[r] = x[r+k]}, where both ranks must exist.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise BadInput(f"a quantile's share must be above 0 and at most 1, found {self.share:g}")

    def of(self, values: list[Indices]) -> tuple[int, int]:
        ordered = np.sort(np.concatenate(values))
        rank = max(0, math.ceil(self.share * len(ordered)) - 1)
        ties = np.flatnonzero(ordered == ordered[rank])
        return int(ordered[rank]), int(min(rank - ties[0], ties[-1] - rank))


@dataclass(frozen=True)
class OfChunks(StableFunction[Records, Any]):
    """Any function, by subsample and aggregate: the most common result on k disjoint chunks.

    The record at place i is in chunk i mod k, so replacing it changes the result of at most one chunk, and the distance
    of :func:`plurality` is in records. A chunk's result is a JSON value. Results are equal if their canonical texts
    are, and the released value is parsed from that text. If the function fails, or returns anything else, the result of
    its chunk is null. It gets a copy of each chunk and must keep nothing from one call to the next.
    """

    function: Callable[[Records], Any]
    chunks: int

    def of(self, values: list[Records]) -> tuple[Any, int]:
        records, votes = Records.joined(values), Counter[bytes]()
        for chunk in range(self.chunks):
            votes[self._one(records.take(np.arange(chunk, len(records), self.chunks)))] += 1
        texts = sorted(votes)
        index, distance = plurality([votes[text] for text in texts])
        return canonical.decode(texts[index]), distance

    def _one(self, records: Records) -> bytes:
        try:
            return canonical.encode(self.function(records))
        except Exception:  # noqa: BLE001 - whatever it is, a failure would say something about this chunk
            return canonical.encode(None)


@central
@dataclass(frozen=True)
class StableRelease(CentralMechanism[T, A | None], Generic[T, A]):
    """The release of a function's value if it is stable, else None: (epsilon, delta)-DP by :func:`a_stab`.

    Values are the function's input: one whole number per person (:class:`MostCommon`, :class:`ExactQuantile`), or
    records (:class:`OfChunks`).
    """

    function: StableFunction[T, A]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not type(self.function).__module__.startswith(f"{HOME}."):
            raise TypeError(f"{type(self.function).__qualname__}: functions with a distance are part of {HOME}")

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon, delta=self.delta)

    def person(self, value: Any) -> T:
        return self.function.person(value)

    @property
    def neutral(self) -> T:
        return self.function.neutral

    def apply(self, values: Iterator[T], source: RandomSource) -> A | None:
        return a_stab(*self.function.of(list(values)), self.epsilon, self.delta, source)
