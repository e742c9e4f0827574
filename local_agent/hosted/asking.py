"""The answers of some people of a record source, worked out together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.data.population import RecordSource
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import answer_type
from common.local.queries.query import Query
from common.numerics.randomness import RandomSource
from local_agent.answering import CONSTANT, evaluate, noise_for, question_digest, randomize
from local_agent.hosted.own_noise import MOST, NotOneEach, OwnNoise

Block = tuple[Indices, Indices]
"""Some people, and their slots."""
Values = Callable[[Query, RecordSource, Iterator[Block]], Iterator[tuple[Indices, AnyArray]]]
"""Evaluates a query on blocks of people, and returns the slots and the values of each, in their order."""
BLOCK = 1 << 18
"""People whose records are in memory at the same time."""


def evaluate_people(query: Query, population: RecordSource, people: Indices, slots: Indices) -> AnyArray:
    """Evaluate a query on some people of a record source, as :func:`evaluate`.

    A record that cannot be read is one that cannot be evaluated: whether it can may depend on what is in it.
    """
    wanted = np.dtype(np.float64 if query.domain is None else np.uint64)
    try:
        records = population.records(people, query.columns)
    except Exception:  # noqa: BLE001 - nobody may see that it failed: not by silence, and not by a reason given
        if len(people) == 1:
            return np.array([CONSTANT], dtype=wanted)
        each = [evaluate_people(query, population, people[i : i + 1], slots[i : i + 1]) for i in range(len(people))]
        return np.concatenate(each) if each else np.empty(0, dtype=wanted)
    return evaluate(query, records, slots)


def evaluated(query: Query, population: RecordSource, blocks: Iterator[Block]) -> Iterator[tuple[Indices, AnyArray]]:
    """Evaluate a query on blocks of people, here and one after the other; return the slots and values of each."""
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

    The randomness is keyed by who answers what: people answer once in their lives, so no two answers ever share random
    bits, across runs too. Keys and run names stay out of it: a seeded run is the same run in every deployment. Where
    people are real each has noise of their own for each question (:func:`local_agent.answering.noise_for`), whoever is
    asked beside them: copies of the state give the same answers.
    """
    what = question_digest(query, mechanism)
    if not source.simulated:
        return answer_each(query, mechanism, what, population, people, slots, source)
    own = source.derive("answers", hashlib.sha256(people.tobytes() + slots.tobytes()).hexdigest(), what)
    answers: AnyArray = np.empty(len(people), dtype=answer_type(mechanism.answer_kind(query.domain)))
    blocks = ((people[at : at + BLOCK], slots[at : at + BLOCK]) for at in range(0, len(people), BLOCK))
    at = 0
    for own_slots, found in values(query, population, blocks):
        answers[at : at + len(found)] = randomize(query, found, mechanism, own_slots, own)
        at += len(found)
    return answers


def answer_each(
    query: Query,
    mechanism: LocalRandomizer,
    what: str,
    population: RecordSource,
    people: Indices,
    slots: Indices,
    secret: RandomSource,
) -> AnyArray:
    """Return the answers of real people, each with noise of their own."""
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
