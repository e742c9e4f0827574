"""Learn a parity in each of several blocks of the people, who are sorted by a value."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field

from common.core.errors import BadMessage
from common.privacy.theorems.klnrs import Rule
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.operations.base import OPERATIONS, Operation, Result


class BlockParities(Result):
    """For each part, the features that each block's parity sums up (the constant is one more), or None."""

    parities: tuple[tuple[FeatureSet | None, ...], ...]


@OPERATIONS.register("parities")
class LearnParities(Operation[BlockParities]):
    """Learn a parity in each of several blocks of the people, who are sorted by a value; release what each says.

    Attributes
    ----------
    features
        The first so many features, and a constant 1, are what parities sum up; the label is their sum.
    first, bits
        The features that are the bits of the value, most significant first.
    blocks
        Number of blocks of equally many people.
    parts
        Each of so many disjoint parts of the people answers for all blocks.
    epsilon
        What this costs.
    rule
        How KLNRS keeps records: ``tight`` or ``paper``.
    """

    result: ClassVar = BlockParities
    kind: Literal["parities"] = "parities"
    features: int = Field(ge=1, le=4095)
    first: int = Field(ge=0, lt=1 << 20)
    bits: int = Field(ge=1, le=64)
    blocks: int = Field(ge=1, le=1 << 12)
    parts: int = Field(ge=1, le=1 << 10)
    epsilon: float = Field(gt=0)
    rule: Rule = "tight"

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one of six blocks."""
        return (cls(features=4, first=4, bits=3, blocks=2, parts=3, epsilon=20.0),)

    @property
    def min_features(self) -> int:
        """Smallest number of features that the records must have."""
        return max(self.features, self.first + self.bits)

    def check(self, result: BlockParities) -> None:
        """Refuse other numbers of parts and blocks, and parities of more features."""
        if len(result.parities) != self.parts or any(len(part) != self.blocks for part in result.parities):
            raise BadMessage(f"parities must be of {self.parts} parts of {self.blocks} blocks each")
        if any(answer and answer[-1] > self.features for part in result.parities for answer in part):
            raise BadMessage(f"a parity must be of {self.features} features and a constant")
