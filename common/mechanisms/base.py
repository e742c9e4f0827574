"""What every local mechanism can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from common.arrays import AnyArray, Floats
from common.errors import BadMessage
from common.randomness import RandomSource
from common.registry import Registry
from common.values import Value


class Mechanism(Value):
    """A local randomizer for one value in [0, 1] with its privacy guarantee, as a frozen value.

    Bounding the value (:func:`common.queries`) and adding randomness (here) are two steps: every mechanism clamps its
    input to [0, 1] and reads NaN as 0 before it randomizes, so its guarantee holds for whatever a query computed.
    """

    name: str
    answers: ClassVar[Literal["bit", "real"]]
    """What one answer is: a bit (sent packed, eight to a byte) or a double."""

    @property
    @abstractmethod
    def guarantee(self) -> tuple[float, float]:
        """The (epsilon, delta) of one answer, with respect to replacing the record; (inf, 1) if it gives none."""

    @abstractmethod
    def randomize(self, values: Floats, source: RandomSource) -> AnyArray:
        """Randomize each of n values in [0, 1] independently; uint8 (n,) in {0, 1} for bits, float64 (n,) for reals."""

    @abstractmethod
    def unbias(self, answers: AnyArray) -> Floats:
        """Map each answer to an unbiased estimate of its value, float64 (n,)."""

    @abstractmethod
    def variance(self, value: float) -> float:
        """Exact variance of one unbiased answer, given the value in [0, 1] (randomized rounding included)."""


MECHANISMS: Registry[type[Mechanism]] = Registry("mechanism", "common.mechanisms")


def parse_mechanism(wire: Any) -> Mechanism:
    """Validate a mechanism from its JSON form.

    Raises
    ------
    BadMessage
        If the name is unknown or a parameter is wrong.
    """
    name = wire.get("name") if isinstance(wire, dict) else None
    if name not in MECHANISMS.names():
        raise BadMessage(f"no mechanism is called {name!r}; known: {', '.join(MECHANISMS.names())}")
    return MECHANISMS[str(name)].parse(wire)
