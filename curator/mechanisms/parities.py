"""Parities over F_2, learned privately (KLNRS 2011): equations in echelon form, blocks of places, blocks of ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from common.core.arrays import Bits, Indices, Words
from common.core.errors import BadInput
from common.local.hypotheses.rules import FeatureSet
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import Rates, Rule, rates
from curator.mechanisms.base import PureCentral, central

_ROWS = 1 << 10  # equations added at a time: with the echelon form they fit in the cache
_ONE = np.uint64(1)
_NONE = np.uint64(0)


class Equations:
    """A growing system <x, a> = y over F_2 in a = (a_1, ..., a_d).

    Only an echelon form is kept, at most d + 1 equations, so any number can be added in bounded memory. The solutions
    depend only on the set of added equations, not on their order or on how they were split into calls.
    """

    def __init__(self, unknowns: int) -> None:
        self._unknowns = unknowns
        self._matrix: Words = np.empty((unknowns // 64 + 1, 0), dtype=np.uint64)
        self._pivots: Indices = np.empty(0, dtype=np.int64)

    def add(self, coefficients: Bits, values: Bits) -> None:
        """Add k equations: coefficients, shape (k, d), and values, shape (k,), 0 or 1.

        Raises:
            BadInput: If the shapes do not match. The system is then unchanged.
        """
        if coefficients.shape != (len(values), self._unknowns):
            raise BadInput(
                f"{len(values)} equations in {self._unknowns} unknowns have other coefficients than "
                f"{coefficients.shape}"
            )
        for start in range(0, len(values), _ROWS):
            batch = slice(start, start + _ROWS)
            count = self._matrix.shape[1]
            matrix = np.zeros((len(self._matrix), count + len(values[batch])), dtype=np.uint64)
            matrix[:, :count] = self._matrix
            pack(coefficients[batch], values[batch], matrix[:, count:])
            self._pivots = eliminate(matrix, self._unknowns + 1)
            self._matrix = matrix[:, : len(self._pivots)].copy()

    @property
    def rank(self) -> int:
        return len(self._pivots) - (not self.consistent)

    @property
    def consistent(self) -> bool:
        """Whether there is a solution, that is, 0 = 1 does not follow from the equations."""
        return len(self._pivots) == 0 or int(self._pivots[-1]) < self._unknowns

    def point(self, source: RandomSource) -> Bits:
        """Draw a uniform point of the affine space of solutions, shape (d,), uint8.

        The variables without a pivot are drawn as fair coins; each choice of them has exactly one solution.

        Raises:
            BadInput: If the system is inconsistent.
        """
        if not self.consistent:
            raise BadInput("an inconsistent system has no solution to draw")
        point = source.words(len(self._matrix))
        substitute(self._matrix, self._pivots, self._unknowns, point)
        return np.unpackbits(point.view(np.uint8), bitorder="little")[: self._unknowns]


def pack(coefficients: Bits, values: Bits, matrix: Words) -> None:
    """Pack equations into the columns of ``matrix``, shape (words, k): 64 coefficients per word, then the value."""
    width = coefficients.shape[1]
    bits = np.zeros((len(values), 64 * len(matrix)), dtype=np.uint8)
    bits[:, :width], bits[:, width] = coefficients & 1, values & 1
    matrix[:] = np.packbits(bits, axis=1, bitorder="little").view("<u8").T


@njit
def eliminate(matrix: Words, columns: int) -> Indices:
    """Bring packed rows to echelon form, in place; bit b of ``matrix[w, r]`` is column 64 w + b of row r.

    The layout is word-major, so that one pivot clears its column from 64-bit words of many rows at once, branch-free.

    Returns:
        The pivot columns, increasing, one for each of the first ``rank`` rows; all other rows are zero.
    """
    words, rows = matrix.shape
    pivots = np.empty(min(rows, columns), dtype=np.int64)
    rank = 0
    for column in range(columns):
        if rank == rows:
            break
        word, bit = column >> 6, np.uint64(column & 63)
        row = rank
        while row < rows and not (matrix[word, row] >> bit) & _ONE:
            row += 1
        if row == rows:
            continue
        for w in range(word, words):
            matrix[w, rank], matrix[w, row] = matrix[w, row], matrix[w, rank]
        below, pivot = matrix[word, rank + 1 :], matrix[word, rank]
        for w in range(word + 1, words):
            _subtract(matrix[w, rank + 1 :], below, bit, matrix[w, rank])
        for r in range(len(below)):
            below[r] ^= _mask(below[r], bit) & pivot
        pivots[rank] = column
        rank += 1
    return pivots[:rank]


@njit
def _subtract(packed: Words, below: Words, bit: np.uint64, pivot: np.uint64) -> None:
    for r in range(len(packed)):
        packed[r] ^= _mask(below[r], bit) & pivot


@njit
def _mask(word: np.uint64, bit: np.uint64) -> np.uint64:
    return _NONE - ((word >> bit) & _ONE)  # all bits where this bit is 1, or none


@njit
def substitute(matrix: Words, pivots: Indices, unknowns: int, point: Words) -> None:
    """Solve an echelon form for its pivots, from the last to the first, given the other bits of ``point``."""
    point[unknowns >> 6] |= _ONE << np.uint64(unknowns & 63)  # the coefficient 1 of the right-hand sides
    for i in range(len(pivots) - 1, -1, -1):
        word, bit = pivots[i] >> 6, np.uint64(pivots[i] & 63)
        point[word] &= ~(_ONE << bit)
        parity = _NONE
        for w in range(word, len(matrix)):
            parity ^= matrix[w, i] & point[w]
        for shift in (32, 16, 8, 4, 2, 1):
            parity ^= parity >> np.uint64(shift)
        point[word] |= (parity & _ONE) << bit


Answers = tuple[FeatureSet | None, ...]


@central
@dataclass(frozen=True)
class PlaceParities(PureCentral[Records, list[FeatureSet | None]]):
    """Solve the records' equations <x, a> = [label is +1] in disjoint blocks; each returns an answer or bottom (None).

    Each block (``Algorithm A`` of Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011, Section 4.2) returns
    bottom with some probability. Otherwise it keeps each of its records with probability p and answers with a uniform
    point of the solutions, or bottom if there is none. That is pure epsilon-DP by the proof in
    :func:`common.privacy.theorems.randomized_response.rates`, where ``rule`` and ``epsilon`` determine both
    probabilities. A record at place i is in block i mod ``blocks``, so all blocks cost epsilon (parallel composition).
    """

    dimension: int
    rule: Rule
    epsilon: float
    blocks: int

    def apply(self, values: Iterator[Records], source: RandomSource) -> list[FeatureSet | None]:
        keep_rate, answer_rate = rates(self.rule, self.epsilon)
        systems = [Equations(self.dimension) for _ in range(self.blocks)]
        coins, begin = source.derive("kept"), 0
        for records in values:
            sampled = np.flatnonzero(coins.uniforms(len(records)) < keep_rate)
            blocks = (begin + sampled) % self.blocks
            for block, system in enumerate(systems):
                rows = sampled[blocks == block]
                system.add(records.features[rows], (records.labels[rows] > 0).view(np.uint8))
            begin += len(records)
        tries = source.derive("answers").uniforms(self.blocks) < answer_rate
        parities: list[FeatureSet | None] = [None] * self.blocks
        for block, system in enumerate(systems):
            if tries[block] and system.consistent:
                parities[block] = tuple(np.flatnonzero(system.point(source.derive("point", block))).tolist())
        return parities


@central
@dataclass(frozen=True)
class RankParities(PureCentral[tuple[Words, Bits, Bits], tuple[Answers, ...]]):
    """The curator of Lemma 3.3, "The power of synergy": sort, divide into blocks of ranks, learn a parity in each.

    Values are, for each person, a number to sort by, the equation's coefficients (k, width) and its right side.
    The place i of a record determines its part, i mod ``parts``. Replacing it changes one part only, so all parts
    together cost epsilon (parallel composition). Within its part, the new record may have another rank, while the
    others keep their order (ties by place). So each of the ``blocks`` blocks loses at most one record and gains at most
    one. The learner of each block is epsilon/blocks-DP for such a change, and blocks add up (basic composition):
    ``epsilon`` is that of all blocks of a part together.
    """

    rule: Rule
    epsilon: float
    parts: int
    blocks: int

    @property
    def law(self) -> Rates:
        """p, and the probability that a block answers.

        Raises:
            BadInput: If the rule cannot satisfy this epsilon.
        """
        return rates(self.rule, self.epsilon if self.blocks == 1 else down(self.epsilon / self.blocks))

    def apply(self, values: Iterator[tuple[Words, Bits, Bits]], source: RandomSource) -> tuple[Answers, ...]:
        keys, x, sums = (np.concatenate(column) for column in zip(*values, strict=True))
        law, answers = self.law, []
        for part in range(self.parts):
            members = np.arange(part, len(keys), self.parts)
            ranked = members[np.argsort(keys[members], kind="stable")]
            cuts = [len(ranked) * block // self.blocks for block in range(self.blocks + 1)]
            answers.append(
                tuple(
                    _learned(x, sums, ranked[begin:end], law, source.derive("block", part, block))
                    for block, (begin, end) in enumerate(pairwise(cuts))
                )
            )
        return tuple(answers)


def _learned(x: Bits, sums: Bits, rows: Indices, law: Rates, source: RandomSource) -> FeatureSet | None:
    sampled = rows[source.derive("kept").uniforms(len(rows)) < law.kept]
    system = Equations(x.shape[1])
    system.add(np.ascontiguousarray(x[sampled]), sums[sampled])
    if not (source.derive("answer").uniforms(1)[0] < law.answers and system.consistent):
        return None
    return tuple(np.flatnonzero(system.point(source.derive("point"))).tolist())
