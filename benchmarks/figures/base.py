"""What a figure is: named points, what one repetition of a point measures, and how all of them are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.numerics.randomness import subseed

Measured = dict[str, Any]
"""What one repetition measured: JSON values. Numbers are summarized; lists (curves) and texts are only drawn."""

Results = Mapping[str, list[Measured]]
"""What was measured, by point, in the order of the figure's points; points without a repetition are missing."""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: Of its files: ``figure2.jsonl``, ``figure2.svg``, ``figure2.png``.
        points: Names of the grid's points, in the order in which they are drawn.
        repeat: Called with a point and a seed, in a process of its own: a function of a module, not a lambda.
        draw: Called with the results and a path for each picture (its ending says which kind).
        repetitions: How often each point is repeated, where nothing else is asked for.
    """

    name: str
    points: tuple[str, ...]
    repeat: Callable[[str, int], Measured]
    draw: Callable[[Results, Path], None]
    repetitions: int = 50

    def seed(self, point: str, repetition: int) -> int:
        """Return the seed of a repetition (from 0 on): it depends on the names and the number alone."""
        return subseed(repetition, f"{self.name} {point}")
