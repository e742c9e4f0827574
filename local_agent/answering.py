"""From records to randomized answers: bound the value, then randomize it. Never lets an exception or NaN out."""

from __future__ import annotations

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray, Indices
from common.core.errors import PolicyRefused
from common.local.mechanisms.frequency import FrequencyOracle, public_words, within
from common.local.mechanisms.mechanism import LocalRandomizer, Mechanism
from common.local.queries.query import FrequencyQuery, Query
from common.local.records import Records
from common.numerics.randomness import RandomSource

CONSTANT = 0
"""What a value or an item becomes that cannot be computed; randomized and sent like any other."""


def evaluate(query: Query, records: Records, slots: Indices) -> AnyArray:
    """Evaluate a query on records, clamped to [0, 1] or its domain; whatever goes wrong becomes :data:`CONSTANT`.

    Records have the columns that the query reads (:attr:`~common.local.queries.query.Query.columns`).
    What goes wrong for one person changes nobody else's value: records that cannot be evaluated together are evaluated
    one by one.
    """
    wanted = np.dtype(np.float64 if query.domain is None else np.uint64)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(query.evaluate(records, slots)).astype(wanted, casting="same_kind", copy=False)
    except Exception:  # noqa: BLE001 - whether the query fails may depend on the record: nobody may see that it did
        values = np.empty(0, dtype=wanted)
    if values.shape != (len(records),):
        if len(records) == 1:
            return np.array([CONSTANT], dtype=wanted)
        rows = range(len(records))
        return np.concatenate([evaluate(query, records.take(np.array([i])), slots[i : i + 1]) for i in rows])
    if query.domain is not None:
        return within(np.asarray(values, dtype=np.uint64), query.domain)
    return np.clip(np.nan_to_num(values, nan=CONSTANT, posinf=1.0, neginf=0.0), 0.0, 1.0)


def randomize(
    query: Query, values: AnyArray, mechanism: LocalRandomizer, slots: Indices, source: RandomSource
) -> AnyArray:
    """Randomize many bounded values, or items, with a mechanism that can (see :meth:`LocalRandomizer.answer_kind`)."""
    if isinstance(query, FrequencyQuery) and isinstance(mechanism, FrequencyOracle):
        return mechanism.randomize(values, query.domain, public_words(query.public, slots), source)
    if isinstance(query, FrequencyQuery) or not isinstance(mechanism, Mechanism):
        raise PolicyRefused(f"mechanism {mechanism.name!r} cannot randomize what query {query.kind!r} says")
    return mechanism.randomize(values, source)


def randomize_one(
    query: Query, value: AnyArray, mechanism: LocalRandomizer, slots: Indices, source: RandomSource
) -> float:
    """Randomize one person's value, shape (1,)."""
    return float(randomize(query, value, mechanism, slots, source)[0])


def noise_for(what: str, part: int, person: str | int, secret: RandomSource) -> RandomSource:
    """Return the randomness of a person's answer: a function of a durable secret and of what is asked, and of no run.

    Whoever copies the state that holds the secret and asks the copies the same question gets the same answer from each,
    and not as many independent ones.

    Args:
        what: :func:`question_digest`: the query and the mechanism.
        part: Which part of the query the person's slot is asked (:meth:`~common.local.queries.query.Query.parts`).
        person: Who answers, with their record where it may change: another record needs other noise, or two answers
            would show whether they differ.
        secret: The durable secret.
    """
    return secret.derive("answer", what, part, person)


def question_digest(query: Query, mechanism: LocalRandomizer) -> str:
    """Return the digest of a query and of how it is answered."""
    return canonical.digest([query.wire(), mechanism.wire()])
