"""What a data set of the paper's tables is: a public source, a private target, and how many rows a split takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.core.arrays import Floats
from common.core.errors import BadInput
from curator.learners.domains import DomainSide

Task = Literal["regression", "classification"]


@dataclass(frozen=True, eq=False)
class Raw:
    """Rows as they are read: numbers within public bounds, nothing scaled yet.

    Attributes:
        features: Shape (k, d): finite.
        responses: Shape (k,): in [-1, 1]; for classification -1 or +1.
    """

    features: Floats
    responses: Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """A source and a target, ready for the learners.

    Attributes:
        name, task: Of the data set.
        source: All of the public rows, scaled (:mod:`benchmarks.adaptation.datasets.scaling`).
        target: All of the private rows, each once, scaled by what is public.
        sizes: How many target rows a split has to train, to validate and to test.
        radius: Lambda: all methods learn weights w of norm at most this.
        copies: How often the paper repeats each target row (1: not at all).
    """

    name: str
    task: Task
    source: DomainSide
    target: DomainSide
    sizes: tuple[int, int, int]
    radius: float
    copies: int = 1


Loader = Callable[[Path], Pair]


def found(path: Path) -> Path:
    """Return a data file's path.

    Raises:
        BadInput: If there is no such file.
    """
    if not path.is_file():
        raise BadInput(
            f"there is no data file {path}: give the directory of the public data sets with --data or TANDEM_DATA "
            "(docs/adaptation-tables.md says what it must hold)"
        )
    return path
