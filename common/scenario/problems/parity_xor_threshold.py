"""Parity XOR threshold: a parity that is flipped from a threshold on."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.errors import BadScenario
from common.core.values import Value
from common.data.distributions.base import Distribution
from common.data.distributions.parities import ParityXorThreshold as People
from common.local.hypotheses.rules import FeatureSet, Parity
from common.numerics.randomness import subseed
from common.privacy.theorems.klnrs import Rule
from common.scenario.problems.base import PROBLEMS, Problem

JUDGED = 1 << 17
"""Fresh people on whom an answer is judged."""


class Piecewise(Value):
    """The answer: between two cuts of y the label is the parity of some features of x, and of a constant 1.

    Attributes
    ----------
    cuts
        Ascending: piece i is from cut i - 1 (or 0) up to before cut i.
    pieces
        For each piece the features that are summed up, where number c is the constant; None: nobody said.
    """

    kind: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    cuts: tuple[int, ...]
    pieces: tuple[FeatureSet | None, ...]

    @model_validator(mode="after")
    def _together(self) -> Self:
        if len(self.pieces) != len(self.cuts) + 1 or list(self.cuts) != sorted(self.cuts):
            raise ValueError(f"{len(self.cuts)} ascending cuts make {len(self.cuts) + 1} pieces")
        return self


@PROBLEMS.register("parity-xor-threshold")
class ParityXorThreshold(Problem):
    """Section 3: learn (x, y) -> Par_k(x) + Thr_t(y) with an error of at most ``alpha``.

    Attributes
    ----------
    c
        Length of x, 1 to 128.
    b
        Length of y, 1 to 52.
    blocks
        Blocks of equally many people, by y: 1/alpha of the paper.
    rule
        How KLNRS keeps records: ``tight`` or ``paper``.
    """

    name: Literal["parity-xor-threshold"] = "parity-xor-threshold"
    c: int = Field(ge=1, le=128)
    b: int = Field(ge=1, le=52)
    blocks: int = Field(ge=2, le=1 << 10)
    rule: Rule = "tight"

    @property
    def dimension(self) -> int:
        """Length of x and of y."""
        return self.c + self.b

    def judge(self, answer: dict[str, Any], alpha: float, people: Distribution) -> dict[str, Any]:
        """Return the error on fresh people."""
        told = Piecewise.parse(answer)
        if not isinstance(people, People):
            raise BadScenario(f"the truth of this problem is known of parity-xor-threshold, found {people.name}")
        records = people.draw(subseed(people.threshold, "judge"), np.arange(JUDGED))
        piece = np.searchsorted(np.array(told.cuts, dtype=np.uint64), people.values(records), side="right")
        ones = np.ones((JUDGED, 1), dtype=np.uint8)
        x = np.concatenate([records.features[:, : self.c], ones], axis=1)
        wrong = np.ones(JUDGED, dtype=np.bool_)
        for number, features in enumerate(told.pieces):
            within = piece == number
            predicted = Parity(features=features or ()).predict(np.ascontiguousarray(x[within]))
            wrong[within] = predicted != records.labels[within]
        error = float(wrong.mean())
        return {"correct": error <= alpha, "error": error}
