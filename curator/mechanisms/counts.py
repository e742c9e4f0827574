"""Noisy counts: of the people with a property, of people by cell, and the feature that most people have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats, Indices
from common.numerics.randomness import RandomSource
from common.privacy.events import Release
from common.privacy.rounding import down
from curator.mechanisms.base import CentralMechanism, central
from curator.mechanisms.exponential import choose_level
from curator.mechanisms.whole_numbers import noisy_counts


@central
@dataclass(frozen=True)
class NoisyCount(CentralMechanism[AnyArray, int]):
    """How many people have a property, with two-sided geometric noise (Ghosh, Roughgarden and Sundararajan 2009).

    Values are one truth value a person, shape (k,). The count changes by at most 1 when a record is replaced, so this
    is pure epsilon-DP, exact on the integers. What is released may lie outside 0..n.

    Attributes:
        epsilon: In [0.001, 30].
    """

    epsilon: float

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def person(self, value: Any) -> AnyArray:
        return np.asarray(_one(value) != 0)

    @property
    def neutral(self) -> AnyArray:
        return np.zeros(1, dtype=np.bool_)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        ones = sum(int(np.count_nonzero(_flat(block))) for block in values)
        return int(noisy_counts(np.array([ones]), self.epsilon, source)[0])


@central
@dataclass(frozen=True)
class NoisyHistogram(CentralMechanism[tuple[Indices, AnyArray], Indices]):
    """Sums of whole numbers by cell, with two-sided geometric noise in every cell.

    Values are a cell and a number a person, both of shape (k,). Cells outside 0..cells-1 count for nobody, numbers are
    cut to [-1, 1]: so replacing a record changes the sums by 2 in all, and noise of epsilon/2 in every cell makes this
    pure epsilon-DP.

    Attributes:
        epsilon: In [0.002, 30].
        cells: How many.
    """

    epsilon: float
    cells: int

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def person(self, value: Any) -> tuple[Indices, AnyArray]:
        cell, number = (_one(part) for part in value)
        known = 0.0 <= float(cell[0]) < self.cells
        return np.array([int(cell[0]) if known else -1]), np.array([_cut(number)[0] if known else 0])

    @property
    def neutral(self) -> tuple[Indices, AnyArray]:
        return np.array([-1]), np.array([0])

    def together(self, people: list[tuple[Indices, AnyArray]]) -> tuple[Indices, AnyArray]:
        cells, numbers = zip(*people, strict=True)
        return np.concatenate(cells), np.concatenate(numbers)

    def apply(self, values: Iterator[tuple[Indices, AnyArray]], source: RandomSource) -> Indices:
        sums = np.zeros(self.cells, dtype=np.int64)
        for cells, numbers in values:
            known, kept = _flat(cells), _cut(numbers)
            inside = (known >= 0) & (known < self.cells)
            np.add.at(sums, known[inside].astype(np.int64), kept[inside])
        return noisy_counts(sums, down(self.epsilon / 2.0), source)


@central
@dataclass(frozen=True)
class MostFrequent(CentralMechanism[AnyArray, int]):
    """The exponential mechanism (McSherry and Talwar 2007): column i with chance proportional to e^{epsilon C_i/2}.

    Values are rows of truth values, one a person, shape (k, columns). C_i, the number of people who have property i,
    changes by at most 1 when a record is replaced: pure epsilon-DP. With probability 1 - beta,
    C_i >= max C - 2 ln(d/beta)/epsilon.

    Attributes:
        epsilon: Positive.
        columns: How many properties.
    """

    epsilon: float
    columns: int

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def person(self, value: Any) -> AnyArray:
        found = np.asarray(value)
        if found.shape != (1, self.columns):
            raise ValueError(f"one row of {self.columns} truth values is wanted, found shape {found.shape}")
        return np.asarray(found != 0)

    @property
    def neutral(self) -> AnyArray:
        return np.zeros((1, self.columns), dtype=np.bool_)

    def apply(self, values: Iterator[AnyArray], source: RandomSource) -> int:
        ones, people = np.zeros(self.columns, dtype=np.int64), 0
        for rows in values:
            ones += np.count_nonzero(rows, axis=0)
            people += len(rows)
        missing = people - ones
        level = choose_level(np.bincount(missing, minlength=people + 1), self.epsilon, source)
        alike = np.flatnonzero(missing == level)
        return int(alike[int(source.integers(len(alike), 1)[0])])


def _one(value: Any) -> AnyArray:
    """Return one finite number, shape (1,).

    Raises:
        ValueError: If it is none.
    """
    found = np.asarray(value)
    if found.shape not in ((), (1,)) or not np.isfinite(found).all():
        raise ValueError(f"one finite number is wanted, found shape {found.shape}")
    return found.reshape(1)


def _cut(numbers: AnyArray) -> Indices:
    return np.asarray(np.clip(_flat(numbers), -1, 1).astype(np.int64))


def _flat(values: AnyArray) -> AnyArray | Floats:
    """Return one number a person.

    Raises:
        ValueError: If there is more than one.
    """
    found = np.asarray(values)
    if found.ndim != 1:
        raise ValueError(f"one number a person is wanted, found shape {found.shape}")
    return found
