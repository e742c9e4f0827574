"""What functions of other packages make of people: of one person at a time, and never more than one person's worth.

A mechanism's guarantee is about one value a person. A function that is given a block of records may make a thousand
rows of each, leave some out, look at the mean of the block, change records in place, or fail where one of them is odd:
honest mistakes, each of which costs people more than was charged. So a function that is not the curator's own is called
with one record, a copy, and what it returns is made one person's value by the mechanism
(:meth:`curator.mechanisms.base.CentralMechanism.person`), which clips it as a whole. A person of whom it makes nothing
usable counts as nothing: whether there is such a person changes no more than any other replaced record, and is told to
nobody.

So that a mistake which has nothing to do with people is not passed over, the function is tried on a record of zeros
first. What this cannot hold is a function that keeps something from one call to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from common.core.arrays import Indices
from common.local.records import Records
from curator.mechanisms.base import CentralMechanism

T = TypeVar("T")
HOME = __name__.partition(".")[0]


def own(of: Callable[..., Any]) -> bool:
    """Tell whether a function is the curator's own: it is audited with the mechanism, and may be given blocks."""
    while isinstance(of, partial):
        of = of.func
    return str(getattr(of, "__module__", "")).partition(".")[0] == HOME


class NoValue(ValueError):
    """A function makes of a record of zeros what is no person's value; says what is wanted, and what was found."""


def person_by_person(
    of: Callable[[Records], Any], mechanism: CentralMechanism[T, Any], dimension: int, dtype: np.dtype[Any]
) -> Callable[[Records], T]:
    """Return what gives the mechanism a block's values, each made of one record alone.

    Args:
        dimension, dtype: Of the records, for the trial; what the function raises there is passed on.

    Raises:
        NoValue: If the function makes no person's value of a record of zeros.
    """
    _try(of, mechanism.person, type(mechanism).__name__, dimension, dtype)

    def values(records: Records) -> T:
        return mechanism.together(list(_each(of, mechanism.person, mechanism.neutral, records)))

    return values


def items_by_person(
    of: Callable[[Records], Indices], dimension: int, dtype: np.dtype[Any]
) -> Callable[[Records], Indices]:
    """Return what gives an item for each record of a block, made of that record alone; -1 where there is none.

    Parameters and errors as for :func:`person_by_person`.
    """
    _try(of, _item, "shares", dimension, dtype)
    return lambda records: np.array(list(_each(of, _item, -1, records)), dtype=np.int64)


def _try(
    of: Callable[[Records], Any], person: Callable[[Any], Any], what: str, dimension: int, dtype: np.dtype[Any]
) -> None:
    made = of(Records(np.zeros((1, dimension), dtype=dtype), np.ones(1, dtype=np.int8)))
    try:
        person(made)
    except Exception as error:  # noqa: BLE001 - whatever its author did
        raise NoValue(
            f"a function that makes no value for {what} of one record, tried on a record of zeros "
            f"({type(error).__name__}: {error}): return one value for the record that it is given"
        ) from None


def _each(of: Callable[[Records], Any], person: Callable[[Any], Any], neutral: Any, records: Records) -> Iterator[Any]:
    for place in range(len(records)):
        with np.errstate(all="ignore"):
            try:
                yield person(of(records.take(np.array([place]))))
            except Exception:  # noqa: BLE001 - that it failed may depend on the record: the person counts as nothing
                yield neutral


def _item(value: Any) -> int:
    found = np.asarray(value)
    if found.shape not in ((), (1,)):
        raise ValueError(f"one item is wanted, found shape {found.shape}")
    number = float(found.reshape(()))
    return int(number) if 0.0 <= number < 2.0**53 and number == int(number) else -1
