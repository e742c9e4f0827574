"""From records to randomized answers: bound the value, then randomize it, without letting exceptions or NaN out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common.core import canonical
from common.core.arrays import AnyArray, Indices, Words
from common.core.errors import PolicyRefused
from common.core.machine import on_all_cores
from common.local.mechanisms.frequency import FrequencyOracle, public_words, within
from common.local.mechanisms.mechanism import LocalRandomizer, Mechanism
from common.local.packing import Mask, answer_type, count_ones, members
from common.local.queries.query import FrequencyQuery, Query
from common.local.records import Records
from common.numerics.randomness import RandomSource

if TYPE_CHECKING:
    from common.data.population import RecordSource

CONSTANT = 0  # replaces a value or an item that cannot be computed; it is randomized and sent like any other


def evaluate(query: Query, records: Records, slots: Indices) -> AnyArray:
    """Evaluate a query on records, clamped to [0, 1] or its domain; a failure gives :data:`CONSTANT`.

    Records have only the query's columns. If they cannot be evaluated together, they are evaluated one by one.
    """
    dtype = np.dtype(np.float64 if query.domain is None else np.uint64)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(query.evaluate(records, slots)).astype(dtype, casting="same_kind", copy=False)
    except Exception:  # noqa: BLE001 - whether the query fails may depend on the record, so it must not be visible
        values = np.empty(0, dtype=dtype)
    if values.shape != (len(records),):
        if len(records) == 1:
            return np.array([CONSTANT], dtype=dtype)
        rows = range(len(records))
        return np.concatenate([evaluate(query, records.take(np.array([i])), slots[i : i + 1]) for i in rows])
    if query.domain is not None:
        return within(np.asarray(values, dtype=np.uint64), query.domain)
    return np.clip(np.nan_to_num(values, nan=CONSTANT, posinf=1.0, neginf=0.0), 0.0, 1.0)


def randomize(
    query: Query, values: AnyArray, mechanism: LocalRandomizer, slots: Indices, source: RandomSource
) -> AnyArray:
    """Randomize bounded values, or items, with a mechanism for that kind (see :meth:`LocalRandomizer.answer_kind`)."""
    if isinstance(query, FrequencyQuery) and isinstance(mechanism, FrequencyOracle):
        return mechanism.randomize(values, query.domain, public_words(query.public, slots), source)
    if isinstance(query, FrequencyQuery) or not isinstance(mechanism, Mechanism):
        raise PolicyRefused(f"mechanism {mechanism.name!r} cannot randomize what query {query.kind!r} says")
    return mechanism.randomize(values, source)


def noise_for(what: str, part: int, person: str | int, secret: RandomSource) -> RandomSource:
    """Return the randomness of a person's answer, a function of a durable secret and the question, but not of the run.

    So copies of the state give the same answer to a question, not independent ones.

    ``what`` is :func:`question_digest`, ``part`` the part of the query that the person's slot is asked, and ``person``
    the person, with the record if it may change: with equal noise, two answers would show whether records differ.
    """
    return secret.derive("answer", what, part, person)


def question_digest(query: Query, mechanism: LocalRandomizer) -> str:
    """Return the digest of a query and the mechanism that randomizes its answers."""
    return canonical.digest([query.wire(), mechanism.wire()])


Block = tuple[Indices, Indices]  # some people, and their slots
Values = Callable[[Query, "RecordSource", Iterator[Block]], Iterator[tuple[Indices, AnyArray]]]
"""Evaluates a query on blocks of people, and yields the slots and the values of each block, in order."""
BLOCK = 1 << 18  # people whose values are in memory at the same time
CELLS = 1 << 18  # features that are read and evaluated together, in the cache of a core


def evaluate_people(query: Query, population: RecordSource, people: Indices, slots: Indices) -> AnyArray:
    """Apply :func:`evaluate` to some people of a record source; a record that cannot be read gives :data:`CONSTANT`.

    Each core reads and evaluates a few people at a time; no other records are in memory.
    """
    read = population.dimension if query.columns is None else len(query.columns)
    size = max(1, CELLS // max(1, read))
    parts = [slice(begin, begin + size) for begin in range(0, max(1, len(people)), size)]
    values = on_all_cores(lambda part: _evaluate_some(query, population, people[part], slots[part]), parts)
    return values[0] if len(values) == 1 else np.concatenate(values)


def _evaluate_some(query: Query, population: RecordSource, people: Indices, slots: Indices) -> AnyArray:
    dtype = np.dtype(np.float64 if query.domain is None else np.uint64)
    try:
        records = population.records(people, query.columns)
    except Exception:  # noqa: BLE001 - a failure must not be visible, neither by silence nor by a reason
        if len(people) == 1:
            return np.array([CONSTANT], dtype=dtype)
        values = [_evaluate_some(query, population, people[i : i + 1], slots[i : i + 1]) for i in range(len(people))]
        return np.concatenate(values) if values else np.empty(0, dtype=dtype)
    return evaluate(query, records, slots)


def evaluated(query: Query, population: RecordSource, blocks: Iterator[Block]) -> Iterator[tuple[Indices, AnyArray]]:
    """Evaluate a query on blocks of people, in this process and in order; yield the slots and values of each."""
    for people, slots in blocks:
        yield slots, evaluate_people(query, population, people, slots)


def answer_together(
    query: Query,
    mechanism: LocalRandomizer,
    population: RecordSource,
    people: Indices,
    slots: Indices,
    source: RandomSource,
    values: Values = evaluated,
) -> AnyArray:
    """Return the randomized answers of some people of a record source, in their order, :data:`BLOCK` records at a time.

    The randomness depends on the people, slots and question, not on keys or the run, so a seeded run is the same in
    every deployment. Each real person has separate noise for each question (:func:`noise_for`), whoever else is asked.
    """
    digest = hashlib.sha256(np.ascontiguousarray(people).data)
    digest.update(np.ascontiguousarray(slots).data)
    blocks = ((people[begin : begin + BLOCK], slots[begin : begin + BLOCK]) for begin in range(0, len(people), BLOCK))
    return _answers((query, mechanism, population), blocks, len(people), source, (digest.hexdigest(),), values)


Asking = tuple[Query, LocalRandomizer, "RecordSource"]  # the query, its mechanism, and the people


def _answers(
    asking: Asking, blocks: Iterator[Block], count: int, source: RandomSource, labels: tuple[str, ...], values: Values
) -> AnyArray:
    (query, mechanism, population), start = asking, 0
    what = question_digest(query, mechanism)
    answers: AnyArray = np.empty(count, dtype=answer_type(mechanism.answer_kind(query.domain)))
    if source.simulated:
        stream = source.derive("answers", *labels, what)
        evaluations = values(query, population, blocks)
        pieces = (randomize(query, each, mechanism, slots, stream) for slots, each in evaluations)
    else:
        pieces = (_answer_each(asking, what, *block, source) for block in blocks)
    for piece in pieces:
        answers[start : start + len(piece)] = piece
        start += len(piece)
    return answers


def _answer_each(asking: Asking, what: str, people: Indices, slots: Indices, secret: RandomSource) -> AnyArray:
    query, mechanism, population = asking
    parts = query.parts(slots).tolist()
    answers: AnyArray = np.empty(len(people), dtype=answer_type(mechanism.answer_kind(query.domain)))
    for begin in range(0, len(people), MOST):
        block = slice(begin, min(begin + MOST, len(people)))
        values = evaluate_people(query, population, people[block], slots[block])
        whose = list(zip(parts[block], people[block].tolist(), strict=True))

        def streams(whose: list[tuple[int, int]] = whose) -> list[RandomSource]:
            return [noise_for(what, part, person, secret) for part, person in whose]

        try:
            answers[block] = randomize(query, values, mechanism, slots[block], OwnNoise(streams()))
        except NotOneEach:
            for place, own in enumerate(streams()):
                one = slice(begin + place, begin + place + 1)
                answers[one] = randomize(query, values[place : place + 1], mechanism, slots[one], own)
    return answers


MASS_BLOCK = 1 << 15  # bytes of a mask whose people's records are in memory together: eight people per byte


def answer_mass(
    query: Query,
    mechanism: LocalRandomizer,
    population: RecordSource,
    mask: Mask,
    slot: int,
    source: RandomSource,
    values: Values = evaluated,
) -> AnyArray:
    """Return the randomized answers of the people in a mask, in the order of their numbers, from slot ``slot`` on."""
    labels = hashlib.sha256(np.ascontiguousarray(mask).data).hexdigest(), str(slot)
    return _answers((query, mechanism, population), blocks(mask, slot), count_ones(mask), source, labels, values)


def blocks(mask: Mask, slot: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield the people in a mask with their slots, block by block; ``slot`` is the first slot."""
    for people in members(mask, MASS_BLOCK):
        yield people, np.arange(slot, slot + len(people))
        slot += len(people)


MOST = 1 << 15  # most people at a time: as many as a source draws coins for in one piece
_AHEAD = 16


class NotOneEach(Exception):
    """The error that a draw is not one number per person: the caller must draw for each person separately."""


class OwnNoise(RandomSource):
    """A source of n numbers at a time, where number i comes from person i's own stream, as if drawn separately.

    Every other draw raises :class:`NotOneEach`.
    """

    def __init__(self, streams: Sequence[RandomSource]) -> None:
        super().__init__(bytes(32), simulated=streams[0].simulated)
        self._streams = streams
        self._ahead: list[Words] = []
        self._next = np.zeros(len(streams), dtype=np.int64)

    def derive(self, *labels: str | int) -> RandomSource:
        raise NotOneEach

    def words(self, count: int) -> Words:
        if count != len(self._streams):
            raise NotOneEach
        return self._next_words(np.arange(count))

    def integers(self, bound: int, count: int) -> Indices:
        drawn = self.words(count)
        limit = np.uint64(((1 << 64) // bound) * bound - 1)
        bad = np.flatnonzero(drawn > limit)
        while bad.size:
            drawn[bad] = self._next_words(bad)
            bad = bad[drawn[bad] > limit]
        return (drawn % np.uint64(bound)).astype(np.int64)

    def _keystream(self, size: int) -> AnyArray:
        raise NotOneEach

    def _next_words(self, people: Indices) -> Words:
        places = self._next[people]
        while places.max(initial=0) >= _AHEAD * len(self._ahead):
            self._ahead.append(np.stack([stream.words(_AHEAD) for stream in self._streams]))
        self._next[people] += 1
        words = np.empty(len(people), dtype=np.uint64)
        for number, ahead in enumerate(self._ahead):
            here = places // _AHEAD == number
            words[here] = ahead[people[here], places[here] % _AHEAD]
        return words
