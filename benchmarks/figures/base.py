"""What a figure is: named points, what one repetition of a point measures, and how all of them are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.numerics.randomness import subseed

Measured = dict[str, Any]
"""What one repetition measured: JSON values. Numbers are summarized; lists (curves) and texts are only drawn."""

Results = Mapping[str, list[Measured]]
"""What was measured, by point, in the order of the figure's points; points without a repetition are missing."""


Procedure = Literal["tandem", "printed", "authors"]
PROCEDURES: tuple[Procedure, ...] = ("printed", "authors", "tandem")
"""As the paper prints it; as its authors' code has it, so far as that is known; Tandem's. See docs/figures.md."""

Curve = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Others:
    """The two other procedures of a figure.

    Attributes:
        points: As of a figure: fewer, for each takes longer.
        repeat: Called with a point, a seed and the procedure.
        curve: Rounds and mistakes on T along a repetition of any procedure.
        level: At which mistakes on T a run is to halt.
    """

    points: tuple[str, ...]
    repeat: Callable[[str, int, Procedure], Measured]
    curve: Callable[[Measured], Curve]
    level: float


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: Of its files: ``figure2.jsonl``, ``figure2.svg``, ``figure2.png``.
        points: Names of the grid's points, in the order in which they are drawn.
        repeat: Called with a point and a seed, in a process of its own: a function of a module, not a lambda.
        draw: Called with the results and a path for each picture (its ending says which kind).
        repetitions: How often each point is repeated, where nothing else is asked for; once by the other procedures.
        others: Those; None: there are none.
    """

    name: str
    points: tuple[str, ...]
    repeat: Callable[[str, int], Measured]
    draw: Callable[[Results, Path], None]
    repetitions: int = 50
    others: Others | None = None

    def seed(self, point: str, repetition: int) -> int:
        """Return the seed of a repetition (from 0 on): it depends on the names and the number alone."""
        return subseed(repetition, f"{self.name} {point}")

    def points_of(self, procedure: Procedure) -> tuple[str, ...]:
        """Return the points that a procedure is measured at."""
        return self.points if procedure == "tandem" else self.others.points if self.others else ()

    def measure(self, point: str, seed: int, procedure: Procedure) -> Measured:
        """Repeat a point once by a procedure."""
        if procedure == "tandem":
            return self.repeat(point, seed)
        assert self.others is not None
        return self.others.repeat(point, seed, procedure)
