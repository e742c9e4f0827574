"""Parities over F_2, learned privately: the learner of Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from common.core.errors import BadScenario
from common.numerics.randomness import RandomSource
from common.privacy.theorems.klnrs import rates
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.parity import MAX_FEATURES, Parity
from common.vocabulary.learners.parity import ParitySettings
from common.vocabulary.records import Records
from curator.learners.base import LEARNERS, Learner
from curator.numerics.equations import Equations
from curator.weights.sampling import Sampler

BOTTOM = Constant(label=-1)
"""What is released when no block has an answer."""


@LEARNERS.register("parity")
class ParityLearner(ParitySettings, Learner):
    """Solve the records' equations <x, a> = [label is +1], privately, in disjoint blocks, and take the majority.

    Each block (``Algorithm A`` of KLNRS 2011, Section 4.2; used once by Kohen & Sheffet, Appendix B) says bottom
    with some probability, keeps each of its records with probability p, and answers with a uniform point of the
    solutions, or bottom if there is none. That is pure epsilon-DP on the sample itself, weights or not, by the proof
    in :func:`common.privacy.theorems.klnrs.rates`.

    Record i belongs to block i mod ``blocks``: a place in the sample, so that replacing a record changes one block and
    all blocks together cost epsilon (parallel composition). What is released is post-processing of the blocks'
    answers: the most frequent one, the earliest of several; :data:`BOTTOM` if there is none. The truth solves every
    system, so all blocks of full rank agree on it, while one of deficient rank errs at random; the vote saves
    testing up to ``blocks`` candidates on agents.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one that keeps nearly every record."""
        return (cls(epsilon=20.0),)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Parities want 0/1 features, stored as such, and at most as many as a parity may have."""
        if dtype != np.uint8 or dimension > MAX_FEATURES:
            raise BadScenario(
                f"parities want 0/1 features, at most {MAX_FEATURES} of them, found {dimension} of type {dtype}"
            )

    def learn(
        self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None, public: Records | None = None
    ) -> Hypothesis:
        """Answer by block, and vote; the weights and the previous hypothesis play no part."""
        return vote(self.answers(sampler.everybody(), sampler.dimension, source))

    def answers(self, everybody: Iterator[Records], dimension: int, source: RandomSource) -> list[Parity | None]:
        """Return each block's answer, None for bottom: private as they are.

        Parameters
        ----------
        everybody
            All records in their fixed order, in pieces of any size; the answers do not depend on it.
        dimension
            d.
        """
        kept, answers = rates(self.rule, self.epsilon)
        systems = [Equations(dimension) for _ in range(self.blocks)]
        coins, begin = source.derive("kept"), 0
        for records in everybody:
            chosen = np.flatnonzero(coins.uniforms(len(records)) < kept)
            places = (begin + chosen) % self.blocks
            for block, system in enumerate(systems):
                rows = chosen[places == block]
                system.add(records.features[rows], (records.labels[rows] > 0).view(np.uint8))
            begin += len(records)
        tries = source.derive("answers").uniforms(self.blocks) < answers
        found: list[Parity | None] = [None] * self.blocks
        for block, system in enumerate(systems):
            if tries[block] and system.consistent:
                point = system.point(source.derive("point", block))
                found[block] = Parity(features=tuple(np.flatnonzero(point).tolist()))
        return found


def vote(answers: Sequence[Parity | None]) -> Hypothesis:
    """Return the most frequent answer, the earliest of several such; :data:`BOTTOM` if there is none."""
    votes = Counter(answer for answer in answers if answer is not None)
    return votes.most_common(1)[0][0] if votes else BOTTOM
