"""Learners of rules: the exponential mechanism over stumps or sparse conjunctions, and parities over F_2."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from common.core.errors import BadScenario
from common.learners.rules import ExponentialSettings, ParitySettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import MAX_FEATURES, Constant, FeatureSet, Parity
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.parities import PlaceParities
from curator.mechanisms.selection import FewestMistakes

MAX_HYPOTHESES = 1 << 31
"""Maximum number of conjunctions: one pass takes about a quarter of a minute, and each round makes two passes."""


@LEARNERS.register("exponential")
class Exponential(ExponentialSettings, Learner):
    """Exponential mechanism: h with probability proportional to exp(-epsilon * mistakes(h) / 2), counted on m draws.

    See :class:`curator.mechanisms.selection.FewestMistakes`.
    """

    examples: ClassVar = ({"hypotheses": "stumps", "draws": 2000, "epsilon": 1.0},)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if self.hypotheses == "conjunctions" and (dtype != np.uint8 or dimension < self.literals):
            raise BadScenario(
                f"conjunctions of {self.literals} want that many 0/1 features, found {dimension} of type {dtype}"
            )
        if self.hypotheses == "conjunctions" and math.comb(dimension, self.literals) > MAX_HYPOTHESES:
            raise BadScenario(
                f"{math.comb(dimension, self.literals):,} conjunctions of {self.literals} among {dimension} features "
                f"are more than {MAX_HYPOTHESES:,}: fewer literals"
            )

    def room(self, sizes: CallSizes) -> int:
        cells = 0 if self.hypotheses == "conjunctions" else sizes.dimension * self.cells
        return self.draws * (2 * sizes.width + 32) + 40 * cells

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        mechanism = FewestMistakes(self.hypotheses, self.epsilon, self.literals, self.low, self.high, self.cells)
        return access.release(mechanism, draws=self.draws)


BOTTOM = Constant(label=-1)  # released if no block has an answer


@LEARNERS.register("parity")
class ParityLearner(ParitySettings, Learner):
    """Solve the records' equations <x, a> = [label is +1] privately in disjoint blocks, and take a plurality vote.

    For the blocks and their cost see :class:`curator.mechanisms.parities.PlaceParities`; Kohen & Sheffet, Appendix B,
    use one block. The learner works on the sample itself and ignores weights. The release is post-processing of the
    blocks' answers: the most frequent one, the earliest of several such, or :data:`BOTTOM` if there is none. The true
    parity solves every system, so all blocks of full rank agree on it, while a block of deficient rank errs at random.
    The vote avoids a test of up to ``blocks`` candidates on agents.
    """

    examples: ClassVar = ({"epsilon": 20.0},)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if dtype != np.uint8 or dimension > MAX_FEATURES:
            raise BadScenario(
                f"parities want 0/1 features, at most {MAX_FEATURES} of them, found {dimension} of type {dtype}"
            )

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        answers = access.release(self.mechanism(access.dimension))
        return vote(answers)

    def mechanism(self, dimension: int) -> PlaceParities:
        """Return the mechanism that gives one answer per block, for records with ``dimension`` features."""
        return PlaceParities(dimension, self.rule, self.epsilon, self.blocks)


def vote(answers: Sequence[FeatureSet | None]) -> Hypothesis:
    """Return the most frequent answer, the earliest in a tie; :data:`BOTTOM` if there is none."""
    votes = Counter(answer for answer in answers if answer is not None)
    return Parity(features=votes.most_common(1)[0][0]) if votes else BOTTOM
