"""What a central mechanism is: trusted code between private records and everything else; and one person's value.

A mechanism's guarantee is about one value a person. A function that is given a block of records may make a thousand
rows of each, leave some out, look at the mean of the block, change records in place, or fail where one of them is odd:
honest mistakes, each of which costs people more than was charged. So a function that is not the curator's own is called
with one record, a copy, and what it returns is made one person's value by the mechanism
(:meth:`CentralMechanism.person`), which clips it as a whole. A person of whom it makes nothing usable counts as
nothing, and nobody is told. Other mistakes show on a record of zeros, on which the function is tried first. What this
cannot hold is a function that keeps something from one call to the next.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from common.core.arrays import Indices
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, Gaussian, Release

T = TypeVar("T")
A = TypeVar("A")
HOME = __name__.partition(".")[0]


class ValueOfPerson(ABC, Generic[T]):
    """What one person's value is, of what a function of another package makes of one record."""

    def person(self, value: Any) -> T:
        """Return the value, of length 1.

        Raises:
            ValueError: If what was made is none, or no such function is taken.
        """
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    @property
    def neutral(self) -> T:
        """The value of a person of whom nothing usable was made."""
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    def together(self, people: list[T]) -> T:
        """Return the values of several people, one after the other; at least one."""
        return np.concatenate(people)  # type: ignore[arg-type, return-value]


class CentralMechanism(ValueOfPerson[T], Generic[T, A]):
    """A mechanism, with public parameters, that maps private values of people to what may be released.

    Learners and operations name one and never see what it is given; :class:`~curator.mechanisms.access.Access` applies
    it once the charged event has paid for it. So all noise is added here, and every bound on what one person changes is
    kept here: by clipping where values come from outside of this package.
    """

    @property
    @abstractmethod
    def price(self) -> Event:
        """Its guarantee for the data that it is given, replace one: Release, Gaussian, or NonPrivate."""

    @abstractmethod
    def apply(self, values: Iterator[T], source: RandomSource) -> A:
        """Return what may be released of values that come in blocks; all noise, and nothing else, is the source's."""


class PureCentral(CentralMechanism[T, A]):
    """A central mechanism that is ``epsilon``-DP."""

    epsilon: float

    @property
    def price(self) -> Release:
        return Release(epsilon=self.epsilon)


class GaussianCentral(CentralMechanism[T, A]):
    """A central mechanism that is ``mu``-GDP."""

    mu: float

    @property
    def price(self) -> Gaussian:
        return Gaussian(mu=self.mu)


CENTRAL: set[type[CentralMechanism[Any, Any]]] = set()  # the mechanisms that are trusted

M = TypeVar("M", bound=type[CentralMechanism[Any, Any]])


def central(kind: M) -> M:
    """Class decorator: trust a mechanism. Only for the curator's own package: plug-ins use those that are there."""
    if not kind.__module__.startswith(f"{HOME}."):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}: central mechanisms are part of {HOME}")
    CENTRAL.add(kind)
    return kind


def own(of: Callable[..., Any]) -> bool:
    """Tell whether a function is the curator's own: it is audited with the mechanism, and may be given blocks."""
    while isinstance(of, partial):
        of = of.func
    return str(getattr(of, "__module__", "")).partition(".")[0] == HOME


class NoValue(ValueError):
    """A function makes of a record of zeros what is no person's value; says what is wanted, and what was found."""


def person_by_person(
    of: Callable[[Records], Any], kind: ValueOfPerson[T], dimension: int, dtype: np.dtype[Any]
) -> Callable[[Records], T]:
    """Return what gives a block's values of this kind, each made of one record alone.

    What the function raises in its trial, on a record of this dimension and type, is passed on.

    Raises:
        NoValue: If it makes no person's value of a record of zeros.
    """
    made = of(Records(np.zeros((1, dimension), dtype=dtype), np.ones(1, dtype=np.int8)))
    try:
        kind.person(made)
        neutral = kind.neutral  # before people are looked at: that there is none must not depend on them
    except Exception as error:  # noqa: BLE001 - whatever its author did
        raise NoValue(
            f"a function that makes no value for {type(kind).__name__} of one record, tried on a record of zeros "
            f"({type(error).__name__}: {error}): return one value for the record that it is given"
        ) from None
    return lambda records: kind.together(list(_each(of, kind, neutral, records)))


def _each(of: Callable[[Records], Any], kind: ValueOfPerson[T], neutral: T, records: Records) -> Iterator[T]:
    for place in range(len(records)):
        with np.errstate(all="ignore"):
            try:
                yield kind.person(of(records.take(np.array([place]))))
            except Exception:  # noqa: BLE001 - that it failed may depend on the record: the person counts as nothing
                yield neutral


class ItemOfPerson(ValueOfPerson[Indices]):
    """A whole number; -1 where there is none."""

    def person(self, value: Any) -> Indices:
        found = np.asarray(value)
        if found.shape not in ((), (1,)):
            raise ValueError(f"one item is wanted, found shape {found.shape}")
        number = float(found.reshape(()))
        return np.array([int(number) if 0.0 <= number < 2.0**53 and number == int(number) else -1])

    @property
    def neutral(self) -> Indices:
        return np.array([-1])
