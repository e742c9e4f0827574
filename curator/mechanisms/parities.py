"""Parities over F_2, learned privately (KLNRS 2011): in blocks of places, and in blocks of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from common.core.arrays import Bits, Indices, Words
from common.local.hypotheses.rules import FeatureSet
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Release
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import Rates, Rule, rates
from curator.mechanisms.base import CentralMechanism, central
from curator.numerics.equations import Equations

Answers = tuple[FeatureSet | None, ...]


@central
@dataclass(frozen=True)
class PlaceParities(CentralMechanism[Records, list[FeatureSet | None]]):
    """Solve the records' equations <x, a> = [label is +1] in disjoint blocks; each answers, or says bottom (None).

    Each block (``Algorithm A`` of Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011, Section 4.2) says bottom
    with some probability, keeps each of its records with probability p, and answers with a uniform point of the
    solutions, or bottom if there is none: pure epsilon-DP by the proof in
    :func:`common.privacy.theorems.randomized_response.rates`.
    Record i belongs to block i mod ``blocks``, a place, so all blocks together cost epsilon (parallel composition).

    Attributes:
        dimension: d; features are 0 and 1.
        rule, epsilon: Which p, and how often bottom.
        blocks: How many.
    """

    dimension: int
    rule: Rule
    epsilon: float
    blocks: int

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    def apply(self, values: Iterator[Records], source: RandomSource) -> list[FeatureSet | None]:
        kept, answers = rates(self.rule, self.epsilon)
        systems = [Equations(self.dimension) for _ in range(self.blocks)]
        coins, begin = source.derive("kept"), 0
        for records in values:
            chosen = np.flatnonzero(coins.uniforms(len(records)) < kept)
            places = (begin + chosen) % self.blocks
            for block, system in enumerate(systems):
                rows = chosen[places == block]
                system.add(records.features[rows], (records.labels[rows] > 0).view(np.uint8))
            begin += len(records)
        tries = source.derive("answers").uniforms(self.blocks) < answers
        found: list[FeatureSet | None] = [None] * self.blocks
        for block, system in enumerate(systems):
            if tries[block] and system.consistent:
                found[block] = tuple(np.flatnonzero(system.point(source.derive("point", block))).tolist())
        return found


@central
@dataclass(frozen=True)
class RankParities(CentralMechanism[tuple[Words, Bits, Bits], tuple[Answers, ...]]):
    """The curator of Lemma 3.3, "The power of synergy": sort, divide into blocks of ranks, learn a parity in each.

    Values are, for each person, a number to sort by, the equation's coefficients (k, width) and its right side.
    Record i belongs to part i mod ``parts``, a place: replacing it changes one part only, so all parts together cost
    epsilon (parallel composition). Within its part, the record's place in the order may be another afterwards; the
    others keep their order (ties by their place), so each of the ``blocks`` blocks loses at most one record and gains
    at most one. The learner of each block is epsilon/blocks-DP for such a change, blocks add up (basic composition).

    Attributes:
        rule, epsilon: Of all blocks of a part together.
        parts, blocks: How many.
    """

    rule: Rule
    epsilon: float
    parts: int
    blocks: int

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)

    @property
    def law(self) -> Rates:
        """p, and how often a block answers.

        Raises:
            BadInput: If the rule does not keep to such an epsilon.
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
    """Answer as KLNRS does for these records."""
    kept = rows[source.derive("kept").uniforms(len(rows)) < law.kept]
    system = Equations(x.shape[1])
    system.add(np.ascontiguousarray(x[kept]), sums[kept])
    if not (source.derive("answer").uniforms(1)[0] < law.answers and system.consistent):
        return None
    return tuple(np.flatnonzero(system.point(source.derive("point"))).tolist())
