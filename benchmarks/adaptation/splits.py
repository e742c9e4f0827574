"""Random splits of a target into training, validation and test rows, with and without the paper's copies.

The paper repeats rows before it splits, so that test rows were trained on ("leaky"). "clean" splits the distinct rows
first and repeats each part afterwards: the same sizes, no row on two sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Task
from common.core.arrays import Indices
from common.core.errors import BadInput
from curator.learners.domains import DomainSide

Copies = Literal["none", "leaky", "clean"]


@dataclass(frozen=True, eq=False)
class Split:
    """One split: its number, the whole source, and three disjoint parts of the (possibly repeated) target."""

    number: int
    task: Task
    source: DomainSide
    train: DomainSide
    validation: DomainSide
    test: DomainSide


def split(pair: Pair, number: int, copies: Copies = "none") -> Split:
    """Return split ``number`` of a pair, the same whenever it is asked for.

    Args:
        copies: "none": each row once. "leaky": each row ``pair.copies`` times, then split, as the paper. "clean":
            split, then each row of each part ``pair.copies`` times.
    """
    generator = np.random.default_rng([20240721, number])
    rows = len(pair.target.responses)
    if copies == "leaky":
        sizes = tuple(pair.copies * size for size in pair.sizes)
        order = generator.permutation(np.repeat(np.arange(rows), pair.copies))
        parts = _cut(order, sizes)
    else:
        parts = _cut(generator.permutation(rows), pair.sizes)
        if copies == "clean":
            parts = [np.repeat(part, pair.copies) for part in parts]
    return Split(number, pair.task, pair.source, *(taken(pair.target, part) for part in parts))


def resampled(pair: Pair, number: int, size: int) -> Split:
    """Return a clean split whose ``size`` training rows are drawn with replacement from its distinct ones.

    A real person who is drawn k times loses k times the mu that is stated (docs/corrections.md, D5): as in the paper,
    figures count each drawn row as a person of its own.
    """
    base = split(pair, number)
    generator = np.random.default_rng([20240722, number, size])
    drawn = generator.integers(len(base.train.responses), size=size)
    return Split(number, base.task, base.source, taken(base.train, drawn), base.validation, base.test)


def taken(side: DomainSide, rows: Indices) -> DomainSide:
    """Return some rows of a side."""
    return DomainSide(np.ascontiguousarray(side.features[rows]), np.ascontiguousarray(side.responses[rows]))


def _cut(order: Indices, sizes: tuple[int, ...]) -> list[Indices]:
    if sum(sizes) > len(order):
        raise BadInput(f"a split needs {sum(sizes)} target rows, found {len(order)}")
    ends = np.cumsum(sizes)
    return [order[end - size : end] for size, end in zip(sizes, ends, strict=True)]
