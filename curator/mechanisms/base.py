"""Central mechanisms: trusted code between private records and everything else; and the value of one person.

A mechanism's guarantee is about one value per person. A function that gets a block of records may make a thousand rows
of each, leave some out, use the mean of the block, change records in place, or fail if one of them is odd. These are
honest mistakes, but each costs people more than was charged. So a function that is not the curator's own is called with
a copy of one record, and the mechanism turns the result into one person's value (:meth:`CentralMechanism.person`),
which it clips as a whole. A person for whom the result is not usable gets a neutral value, and no error is reported.
Other mistakes show on a record of zeros, on which the function is tried first. This does not protect against a function
that keeps state from one call to the next.
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
    """The conversion of the result that a function of another package returns for one record into a person's value."""

    def person(self, value: Any) -> T:
        """Return the result as a person's value, of length 1.

        Raises:
            ValueError: If it is no such value, or functions of other packages are not accepted.
        """
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    @property
    def neutral(self) -> T:
        """The value of a person for whom the function returned nothing usable."""
        raise ValueError(f"{type(self).__name__} takes the curator's own functions only")

    def together(self, people: list[T]) -> T:
        """Return the concatenated values of several people, at least one."""
        return np.concatenate(people)  # type: ignore[arg-type, return-value]


class CentralMechanism(ValueOfPerson[T], Generic[T, A]):
    """A mechanism, with public parameters, that maps private values of people to a release.

    Learners and operations name a mechanism and never see its input; :class:`~curator.mechanisms.access.Access` applies
    it once the charged event has paid for it. So all noise is added here, and every bound on one person's influence is
    enforced here, by clipping if values come from outside this package.
    """

    @property
    @abstractmethod
    def price(self) -> Event:
        """Its guarantee for its input when one record is replaced: Release, Gaussian, or NonPrivate."""

    @abstractmethod
    def apply(self, values: Iterator[T], source: RandomSource) -> A:
        """Return the release for values that come in blocks; all noise, and no other randomness, is from the source."""


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
    """Register a mechanism class as trusted (decorator); TypeError outside the curator's own package."""
    if not kind.__module__.startswith(f"{HOME}."):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__}: central mechanisms are part of {HOME}")
    CENTRAL.add(kind)
    return kind


def is_own(function: Callable[..., Any]) -> bool:
    """Return whether a function is the curator's own: these are audited with the mechanism and may get blocks."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__module__", "")).partition(".")[0] == HOME


class NoValue(ValueError):
    """A function's result for a record of zeros is no person's value; states what is expected and what was found."""


def person_by_person(
    function: Callable[[Records], Any], kind: ValueOfPerson[T], dimension: int, dtype: np.dtype[Any]
) -> Callable[[Records], T]:
    """Return a function that maps a block to values of this kind, each computed from one record alone.

    Exceptions of ``function`` in its trial, on a record of zeros with this dimension and type, are passed on.

    Raises:
        NoValue: If its result for a record of zeros is no person's value.
    """
    value = function(Records(np.zeros((1, dimension), dtype=dtype), np.ones(1, dtype=np.int8)))
    try:
        kind.person(value)
        neutral = kind.neutral  # read before any record: whether it exists must not depend on records
    except Exception as error:  # noqa: BLE001 - whatever its author did
        raise NoValue(
            f"a function that makes no value for {type(kind).__name__} of one record, tried on a record of zeros "
            f"({type(error).__name__}: {error}): return one value for the record that it is given"
        ) from None
    return lambda records: kind.together(list(_values(function, kind, neutral, records)))


def _values(function: Callable[[Records], Any], kind: ValueOfPerson[T], neutral: T, records: Records) -> Iterator[T]:
    for index in range(len(records)):
        with np.errstate(all="ignore"):
            try:
                yield kind.person(function(records.take(np.array([index]))))
            except Exception:  # noqa: BLE001 - that it failed may depend on the record: the person counts as nothing
                yield neutral


class ItemOfPerson(ValueOfPerson[Indices]):
    """A whole number; -1 if there is none."""

    def person(self, value: Any) -> Indices:
        array = np.asarray(value)
        if array.shape not in ((), (1,)):
            raise ValueError(f"one item is wanted, found shape {array.shape}")
        number = float(array.reshape(()))
        return np.array([int(number) if 0.0 <= number < 2.0**53 and number == int(number) else -1])

    @property
    def neutral(self) -> Indices:
        return np.array([-1])
