"""A question to more people than are listed: the mask of those who are asked, and their answers, some at a time.

Nothing here grows with how many are asked but the answers and the mask: a byte and an eighth of one for each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from common.core.arrays import AnyArray, Indices
from common.data.population import RecordSource
from common.local.masks import Mask, members, ones
from common.local.mechanisms.mechanism import LocalRandomizer
from common.local.packing import answer_type
from common.local.queries.query import Query
from common.numerics.randomness import RandomSource
from local_agent.answering import question_digest, randomize
from local_agent.hosted.asking import Values, answer_each, evaluated

BLOCK = 1 << 15
"""Bytes of a mask whose people's records are in memory at the same time: at most eight times as many people."""


def answer_mass(
    query: Query,
    mechanism: LocalRandomizer,
    population: RecordSource,
    mask: Mask,
    slot: int,
    source: RandomSource,
    values: Values = evaluated,
) -> AnyArray:
    """Return the randomized answers of the people in a mask, in the order of their numbers.

    Parameters
    ----------
    slot
        That of the first of them; the others follow.
    """
    what = question_digest(query, mechanism)
    own = source.derive("answers", hashlib.sha256(mask.tobytes()).hexdigest(), str(slot), what)
    answers: AnyArray = np.empty(ones(mask), dtype=answer_type(mechanism.answer_kind(query.domain)))
    if source.simulated:
        said = (
            randomize(query, found, mechanism, slots, own)
            for slots, found in values(query, population, blocks(mask, slot))
        )
    else:
        said = (
            answer_each(query, mechanism, what, population, people, slots, source)
            for people, slots in blocks(mask, slot)
        )
    at = 0
    for piece in said:
        answers[at : at + len(piece)] = piece
        at += len(piece)
    return answers


def blocks(mask: Mask, slot: int) -> Iterator[tuple[Indices, Indices]]:
    """Go through the people in a mask, with their slots, of which ``slot`` is the first."""
    for people in members(mask, BLOCK):
        yield people, np.arange(slot, slot + len(people))
        slot += len(people)
