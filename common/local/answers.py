"""A question to agents, and the answers of one batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.local.queries.code import CodedQuery
from common.local.queries.query import Query


@dataclass(frozen=True)
class AskAgents:
    """Ask ``count`` fresh agents a query; the reply is :class:`Answers`."""

    query: Query
    count: int


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one batch.

    Attributes:
        asked: How many agents were asked (fewer than wanted when the pool is empty).
        values: The randomized answers that arrived in time: uint8 bits or float64, by increasing slot.
        slots: Their positions in the batch.
    """

    asked: int
    values: AnyArray
    slots: Indices


class MassAnswers(Answers):
    """The answers of very many: their positions are worked out when somebody asks for them, from a mask.

    Args:
        asked, values: As those of :class:`Answers`.
        mask: Who has answered, over the positions (:mod:`common.local.masks`).
    """

    def __init__(self, asked: int, values: AnyArray, mask: NDArray[np.uint8]) -> None:
        for name, value in (("asked", asked), ("values", values), ("mask", mask)):
            object.__setattr__(self, name, value)

    mask: NDArray[np.uint8]

    @property
    def slots(self) -> Indices:
        """Their positions in the batch: eight bytes for each."""
        return np.flatnonzero(np.unpackbits(self.mask))


Questions = list[tuple[CodedQuery, Answers]]
"""Queries about a code, each with its answers."""
