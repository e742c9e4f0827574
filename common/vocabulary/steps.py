"""What a protocol yields, and what it receives: questions to the curator and to agents, and the agents' answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.vocabulary.operations.base import Operation
from common.vocabulary.queries.base import Query
from common.vocabulary.queries.code import CodedQuery


@dataclass(frozen=True)
class AskCurator:
    """Ask the curator to carry out an operation; the reply is the operation's own result, read and checked."""

    operation: Operation[Any]


@dataclass(frozen=True)
class AskAgents:
    """Ask ``count`` fresh agents a query; the reply is :class:`Answers`."""

    query: Query
    count: int


@dataclass(frozen=True)
class Together:
    """Ask all of this at once: no question can depend on an answer to another. The reply is the list of replies."""

    steps: tuple[AskCurator | AskAgents, ...]


@dataclass(frozen=True)
class Progress:
    """Say something about the progress, to whoever watches; the reply is None."""

    text: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class Testing(Progress):
    """Say how far a test is between two of its questions: of interest until the next one, and part of no result."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one batch.

    Attributes
    ----------
    asked
        How many agents were asked (fewer than wanted when the pool is empty).
    values
        The randomized answers that arrived in time: uint8 bits or float64, by increasing slot.
    slots
        Their positions in the batch.
    """

    asked: int
    values: AnyArray
    slots: Indices


class MassAnswers(Answers):
    """The answers of very many: their positions are worked out when somebody asks for them, from a mask.

    Parameters
    ----------
    asked, values
        As those of :class:`Answers`.
    mask
        Who has answered, over the positions (:mod:`common.vocabulary.masks`).
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
