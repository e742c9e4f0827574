"""What a central mechanism is: trusted code between private records and everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from common.numerics.randomness import RandomSource
from common.privacy.events import Event

T = TypeVar("T")
A = TypeVar("A")


class CentralMechanism(ABC, Generic[T, A]):
    """A mechanism, with public parameters, that maps private values of people to what may be released.

    Learners and operations name one and never see what it is given; :class:`curator.metering.access.Access` applies it,
    once the charged event has paid for it. So all noise is added here, and every bound on what one person changes is
    kept here: by clipping where values come from outside of this package.
    """

    @property
    @abstractmethod
    def price(self) -> Event:
        """Its guarantee for the data that it is given, replace one: Release, Gaussian, or NonPrivate."""

    @abstractmethod
    def apply(self, values: Iterator[T], source: RandomSource) -> A:
        """Return what may be released.

        Args:
            values: Of all people that it is given, a block of them at a time, in the sample's order or in that of the
                draws.
            source: Of its noise, and of nothing else.
        """

    def person(self, value: Any) -> T:
        """Return one person's value, of length 1, of what a function of another package made of one record.

        Only mechanisms that a package may give a function to have it.

        Raises:
            ValueError: If it is none.
        """
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    @property
    def neutral(self) -> T:
        """The value of a person who counts as nothing, of length 1."""
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    def together(self, people: list[T]) -> T:
        """Return the values of several people, one after the other; at least one."""
        return np.concatenate(people)  # type: ignore[arg-type, return-value]


CENTRAL: set[type[CentralMechanism[Any, Any]]] = set()
"""The mechanisms that are trusted."""

M = TypeVar("M", bound=type[CentralMechanism[Any, Any]])


def central(kind: M) -> M:
    """Class decorator: trust a mechanism. Only for the curator's own package: plug-ins use those that are there.

    Raises:
        TypeError: If the class is from elsewhere.
    """
    home = __name__.removesuffix("mechanisms.base")
    if not kind.__module__.startswith(home):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}: central mechanisms are part of {home[:-1]}")
    CENTRAL.add(kind)
    return kind
