"""The interface of simulated distributions."""

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, SerializeAsAny

from common.core.arrays import Indices
from common.core.registry import RegisteredValue, TypeRegistry
from common.local.records import Records
from common.numerics import counter

SIDES: tuple[Literal["source", "target"], ...] = ("source", "target")
"""The sides of a pair of distributions: S (``side: source``) and T (``side: target``)."""


class Distribution(RegisteredValue):
    """A distribution over labelled records from which simulated people are drawn, as a frozen value.

    Record ``i`` depends on ``(seed, i)`` only, so a million people need no memory, and each of them can be drawn in any
    order and on any machine with the same result. If S and T differ, S comes before T in the examples.

    Attributes:
        feature_type: The type of all records' features; None if it is known only from a drawn record.
    """

    name: str
    feature_type: ClassVar[type[np.float32] | type[np.uint8] | None] = None

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of features d, after the public feature map."""

    @property
    def norm_bound(self) -> float:
        """Public bound on the L2 norm of a record's features; sqrt(d) for features in [0, 1]."""
        return math.sqrt(self.dimension)

    @property
    def coordinate_bound(self) -> float:
        """Public bound on the absolute value of one feature; the norm's unless a smaller one is known."""
        return self.norm_bound

    @abstractmethod
    def draw(self, seed: int, people: Indices) -> Records:
        """Return the records of the given people (non-negative indices), in that order."""

    def draw_columns(self, seed: int, people: Indices, columns: Indices | None) -> Records:
        """Return the people's records with the given features only, in the given order; None: all."""
        return self.draw(seed, people).only(columns)


class UnitDistribution(Distribution):
    """A distribution whose features lie in [0, 1]."""

    @property
    def coordinate_bound(self) -> float:
        return 1.0


class PairedDistribution(Distribution):
    """One distribution of a pair S and T, by ``side``; people of both sides are independent for the same seed."""

    side: Literal["source", "target"]

    def key(self, seed: int) -> np.uint64:
        """Return the key of this side's stream of words."""
        return counter.stream(seed, SIDES.index(self.side))


def of_both_sides(**fields: Any) -> tuple[dict[str, Any], ...]:
    """Return the examples of a distribution with these fields, for S and then for T."""
    return tuple({"side": side, **fields} for side in SIDES)


DISTRIBUTIONS: TypeRegistry[Distribution] = TypeRegistry("distribution", __name__, "name")
parse_distribution = DISTRIBUTIONS.parse
AnyDistribution = Annotated[SerializeAsAny[Distribution], BeforeValidator(DISTRIBUTIONS.accept)]
"""A field of a value that holds any registered distribution."""
