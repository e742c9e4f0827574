"""Private selection: the exponential mechanism (McSherry and Talwar 2007) on whole scores, and random stopping."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Bits, Floats, Indices, Labels, Words
from common.core.errors import BadData, BadInput
from common.learners.chosen import combinations
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Conjunction, Stump
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource
from common.privacy.rounding import down
from common.privacy.theorems.selection import AnyLaw, weights
from curator.mechanisms.base import PureCentral, central


def below(bound: int, source: RandomSource) -> int:
    """Draw an integer exactly uniform on 0..bound-1; the number of words used is independent of the integer."""
    while (point := random_bits(bound.bit_length(), source)) >= bound:
        pass
    return point


def random_bits(bits: int, source: RandomSource) -> int:
    """Draw an integer uniform on 0..2^bits-1."""
    words = source.words(-(-bits // 64))
    return int.from_bytes(words.astype("<u8").tobytes(), "little") >> (-bits % 64)


def place_of(point: int, weights: Sequence[int]) -> int:
    """Return the index at which the cumulative weights first exceed a point; always goes through all weights."""
    return sum(bound <= point for bound in accumulate(weights))


_SHARE_BITS = 64  # every level has at least 2^-64 of the weight of the best
_WEIGHT_BITS = 192
EXPONENT_BITS = 320  # bits of the result of :func:`exponential`
_SPARE_BITS = 128
_COUNT_BITS = 64


def choose_level(people: Indices, epsilon: float, source: RandomSource) -> int:
    """Draw a count of mistakes c, and so a hypothesis of count c, with probability proportional to people[c] * w(c).

    ::

        w(c) = max(e^{-epsilon (c - c_min)/2}, 2^-64),    c_min the least count of any hypothesis

    *Pure epsilon-DP* if a record changes the count of each hypothesis by at most 1. With J = 128 ln 2/epsilon, the
    weight is e^{-epsilon min(c - c_min, J)/2}. The score min(c - c_min, J) + c_min = min(c, c_min + J) also changes by
    at most 1, and the common factor e^{epsilon c_min/2} cancels. So without rounding, the law is that of the
    exponential mechanism for that score. It is drawn for epsilon', the double below epsilon. Weights are whole numbers
    of at least 2^128 with a relative error of at most 2^-100. A uniform number with 128 spare bits selects each with
    its probability to within a relative 2^-120. Both change a ratio of probabilities by a factor below e^{2^-96}, while
    epsilon - epsilon' is at least 2^-54 epsilon.

    The numbers of words, of weights and of comparisons are functions of epsilon, at least 2^-40, and of the greatest
    possible count. ``people``, shape (m + 1,), holds the number of hypotheses for each number of mistakes.
    """
    shares = _weights(epsilon, len(people) - 1)
    far = len(shares) - 1
    best = int(np.argmax(people > 0))
    near = np.zeros(far, dtype=np.int64)
    present = people[best : best + far]
    near[: len(present)] = present
    far_counts = np.cumsum(people[best + far :])
    groups = [*near.tolist(), int(far_counts[-1]) if len(far_counts) else 0]
    weights = [count * share for count, share in zip(groups, shares, strict=True)]
    bits = _COUNT_BITS + _WEIGHT_BITS + _SPARE_BITS
    gap = place_of(random_bits(bits, source) * sum(weights) >> bits, weights)
    rank = random_bits(_COUNT_BITS + _SPARE_BITS, source) * groups[-1] >> _COUNT_BITS + _SPARE_BITS
    excess = int(np.searchsorted(far_counts, rank, side="right"))
    return best + gap + (excess if gap == far else 0)


@cache
def _weights(epsilon: float, most: int) -> tuple[int, ...]:
    """Return 2^192 max(e^{-epsilon' j/2}, 2^-64), rounded, for all j up to the first of 2^-64, or up to ``most``."""
    exponent = down(epsilon) / 2.0
    last = min(most, math.ceil(_SHARE_BITS * math.log(2.0) / exponent))
    ratio, weight, weights = exponential(exponent), 1 << EXPONENT_BITS, []
    for _ in range(last + 1):
        weights.append(max(weight >> EXPONENT_BITS - _WEIGHT_BITS, 1 << _WEIGHT_BITS - _SHARE_BITS))
        weight = weight * ratio >> EXPONENT_BITS
    return tuple(weights)


def exponential(exponent: float) -> int:
    """Return e^-x for an exponent x >= 0 in multiples of 2^-320, to about 2^-300, by the Taylor series at x/2^h."""
    above, below = exponent.as_integer_ratio()
    halvings = max(0, math.frexp(exponent)[1] + 8)
    fixed = EXPONENT_BITS + halvings + 16
    argument = (above << fixed) // (below << halvings)
    total = term = 1 << fixed
    k = 0
    while term:
        k += 1
        term = term * argument // (k << fixed)
        total += -term if k % 2 else term
    for _ in range(halvings):
        total = total * total >> fixed
    return total >> fixed - EXPONENT_BITS


@central
@dataclass(frozen=True)
class MostFrequent(PureCentral[AnyArray, int]):
    """The exponential mechanism (McSherry and Talwar 2007): column i with chance proportional to e^{epsilon C_i/2}.

    Values are rows of truth values, one per person, shape (k, columns). C_i, the number of people who have property i,
    changes by at most 1 when a record is replaced: pure epsilon-DP. With probability 1 - beta,
    C_i >= max C - 2 ln(d/beta)/epsilon.
    """

    epsilon: float
    columns: int

    def person(self, value: Any) -> AnyArray:
        row = np.asarray(value)
        if row.shape != (1, self.columns):
            raise ValueError(f"one row of {self.columns} truth values is wanted, found shape {row.shape}")
        return np.asarray(row != 0)

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
        ties = np.flatnonzero(missing == level)
        return int(ties[int(source.integers(len(ties), 1)[0])])


_ONE = np.uint64(1)


@central
@dataclass(frozen=True)
class FewestMistakes(PureCentral[Records, Hypothesis]):
    """h with probability proportional to exp(-epsilon * mistakes(h) / 2), mistakes counted on the records.

    Replacing one record changes every count by at most 1, so this is epsilon-DP (McSherry & Talwar); with probability
    1 - beta the answer has at most 2 ln(|H| / beta) / epsilon mistakes more than the best.

    Hypotheses with the same count are equally likely: one draw picks the count and one the hypothesis.
    Attributes are those of :class:`common.learners.rules.OpenExponential`.
    """

    hypotheses: Literal["conjunctions", "stumps"]
    epsilon: float
    literals: int
    low: float
    high: float
    cells: int

    def apply(self, values: Iterator[Records], source: RandomSource) -> Hypothesis:
        records = Records.joined(list(values))
        stumps = self.hypotheses == "stumps"
        grid = np.linspace(self.low, self.high, self.cells)
        family = _Stumps(records, grid) if stumps else _Conjunctions(records, self.literals)
        people = family.people()
        mistakes = choose_level(people, self.epsilon, source.derive("level"))
        rank = int(source.derive("rank").integers(int(people[mistakes]), 1)[0])
        return family.find(mistakes, rank)


class _Stumps:
    """Stumps: both signs of every feature at every grid point; mistakes are from a cumulative histogram per feature."""

    def __init__(self, records: Records, grid: Floats) -> None:
        self._grid = grid
        self._count = len(records)
        above = _above(records.features, records.labels, grid, int(np.count_nonzero(records.labels > 0)))
        self._mistakes = np.stack([above, self._count - above], axis=-1)

    def people(self) -> Indices:
        """Return the number of members with c mistakes for every c, shape (m + 1,)."""
        return np.bincount(self._mistakes.ravel(), minlength=self._count + 1)

    def find(self, mistakes: int, rank: int) -> Hypothesis:
        """Return the member of rank ``rank``, from 0, among those with ``mistakes`` mistakes."""
        index = int(np.flatnonzero(self._mistakes.ravel() == mistakes)[rank])
        feature, cell, side = np.unravel_index(index, self._mistakes.shape)
        return Stump(feature=int(feature), threshold=float(self._grid[cell]), sign=-1 if side else 1)


class _Conjunctions:
    """All tuples of features; mistakes are counted bitwise, 64 draws at a time, twice instead of being stored."""

    def __init__(self, records: Records, literals: int) -> None:
        if records.features.dtype != np.uint8 or int(records.features.max(initial=0)) > 1:
            raise BadData("conjunctions want 0/1 features (uint8); these are not")
        if records.dimension < literals:
            raise BadData(f"{literals} literals want as many features, found {records.dimension}")
        self._bits = _packed(records.features)
        self._positive = _packed((records.labels > 0).astype(np.uint8)[:, np.newaxis])[0]
        self._count = len(records)
        self._literals = literals

    def people(self) -> Indices:
        counts = np.zeros(self._count + 1, dtype=np.int64)
        _walk(self._bits, self._positive, self._literals, counts, -1, 0)
        return counts

    def find(self, mistakes: int, rank: int) -> Hypothesis:
        features = _walk(self._bits, self._positive, self._literals, np.zeros(1, dtype=np.int64), mistakes, rank)
        return Conjunction(features=tuple(int(feature) for feature in features))


def _packed(features: Bits) -> Words:
    rows, width = features.shape
    padded = np.zeros((width, -(-rows // 64) * 64), dtype=np.uint8)
    padded[:, :rows] = features.T
    return np.packbits(padded, axis=1).view(np.uint64)


@njit
def _above(features: AnyArray, labels: Labels, grid: Floats, positives: int) -> Indices:
    """Count the mistakes of "+1 iff x_j > grid[c]", shape (d, cells)."""
    mistakes = np.zeros((features.shape[1], len(grid)), dtype=np.int64)
    for j in range(features.shape[1]):
        # Sum of labels by the number of grid points below x; grid[c] predicts -1 for x iff at most c of them are.
        balance = np.zeros(len(grid) + 1, dtype=np.int64)
        for i in range(len(labels)):
            balance[np.searchsorted(grid, features[i, j])] += labels[i]
        wrong = len(labels) - positives
        for c in range(len(grid)):
            wrong += balance[c]
            mistakes[j, c] = wrong
    return mistakes


@njit
def _ones(word: np.uint64) -> np.uint64:
    word = word - ((word >> _ONE) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit
def _walk(bits: Words, positive: Words, literals: int, counts: Indices, target: int, rank: int) -> Indices:
    """Go through all increasing tuples of features, in lexicographic order.

    With ``target`` < 0, add to ``counts`` how many tuples make each number of mistakes. Otherwise return the tuple of
    rank ``rank`` among those with ``target`` mistakes, in the same order (all -1 if there is none).
    """
    width, words = bits.shape
    prefix = literals - 1
    features = np.arange(literals)
    conjunctions = np.empty((literals, words), dtype=np.uint64)
    conjunctions[0] = ~np.uint64(0)  # row l holds the conjunction of the first l features
    level = 0
    while True:
        for place in range(level, prefix):
            for k in range(words):
                conjunctions[place + 1, k] = conjunctions[place, k] & bits[features[place], k]
        for last in range(features[prefix - 1] + 1 if prefix else 0, width):
            wrong = np.uint64(0)
            for k in range(words):
                wrong += _ones((conjunctions[prefix, k] & bits[last, k]) ^ positive[k])
            if target < 0:
                counts[wrong] += 1
            elif int(wrong) == target:
                if rank == 0:
                    features[prefix] = last
                    return features
                rank -= 1
        level = prefix - 1
        while level >= 0 and features[level] == width - literals + level:
            level -= 1
        if level < 0:
            features[:] = -1
            return features
        features[level] += 1
        for place in range(level + 1, prefix):
            features[place] = features[place - 1] + 1


Output = TypeVar("Output")


@dataclass(frozen=True)
class Chosen(Generic[Output]):
    """The best run: its output and its settings (public, as the output is)."""

    output: Output
    settings: dict[str, Any]


def choose(
    fit: Callable[[dict[str, Any], RandomSource], Output],
    score: Callable[[Output, RandomSource], float],
    grid: Mapping[str, Sequence[Any]],
    law: AnyLaw,
    source: RandomSource,
    *,
    constant_time: bool = True,
) -> Chosen[Output]:
    """Run K times with settings drawn uniformly from a public grid, and return the run with the highest score.

    If ``fit`` followed by ``score`` is mu-GDP for each setting, the choice costs
    :func:`~common.privacy.theorems.selection.epsilon_of_selection` for mu. Typically ``fit`` sees one part of the
    sample and is mu-GDP in it, and ``score`` sees the other, disjoint part and is mu-GDP in it for every input to
    score. Then both together are mu-GDP. If the neighbours differ in the first part, the score is post-processing of
    the fit. If they differ in the second part, the fits have the same law, and given the fit the scores are at least as
    hard to distinguish as N(0, 1) and N(mu, 1). As trade-off functions are convex, this remains true on average over
    the fits. Drawing the settings is such an average.

    Args:
        score: Returns a score that is private itself; higher is better.
        constant_time: Carry out all ``law.most`` runs and use the first K only, since the running time would otherwise
            reveal K.
    """
    settings = combinations(grid)
    if not settings:
        raise BadInput("every setting of the grid needs at least one value")
    count = draw_count(law, source.derive("count"))
    picks = source.derive("settings").integers(len(settings), law.most)

    def attempt(run: int) -> tuple[float, Chosen[Output]]:
        setting = settings[int(picks[run])]
        output = fit(setting, source.derive("fit", run))
        return score(output, source.derive("score", run)), Chosen(output, setting)

    best = attempt(0)
    for run in range(1, law.most if constant_time else count):
        candidate = attempt(run)
        if run < count and candidate[0] > best[0]:
            best = candidate
    return best[1]


def draw_count(law: AnyLaw, source: RandomSource) -> int:
    """Draw K exactly, in a time that does not depend on K; the law's probabilities are ratios of integers."""
    shares = weights(law)
    return 1 + place_of(below(sum(shares), source), shares)
