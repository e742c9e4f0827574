"""Two demands on a hybrid answer, shift by shift: not to be worse than one side alone, and to come near the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.real.methods import ALONE
from benchmarks.real.running import Row, interval

DISTANCE = 0.02
"""Below so much between source model and optimum there is nothing to close."""
CLOSED = 0.7
"""The part of it that a hybrid answer is to close."""

Relation = Literal["better", "open", "worse"]


@dataclass(frozen=True)
class Verdict:
    """A hybrid answer on one shift.

    Attributes:
        shift, method, loss, gap: Whose verdict it is, its mean loss and its mean stated gap.
        best, best_loss: Whichever of curator alone, agents alone and the constant has the least mean loss on these very
            splits: chosen afterwards, so the hybrid is compared with the luckiest of them.
        gained, low, high: By how much the hybrid's loss is below that, with the 95% interval of the difference on the
            same splits (None with a single split).
        distance: From the private source model's loss to that of the private optimum; None where one of them is not
            there.
    """

    shift: str
    method: str
    loss: float
    gap: float
    best: str
    best_loss: float
    gained: float
    low: float | None
    high: float | None
    distance: float | None
    source_loss: float | None

    @property
    def relation(self) -> Relation:
        """Better than the best that there is without a hybrid, worse, or open: one rule for both directions.

        Better only where the interval of what is gained is above 0, worse only where it is below; where it holds 0, or
        there is none, these splits do not tell. The gap that the run states is about something else: what its judges
        can guarantee on one split, however good the answer is.
        """
        if self.low is None or self.high is None:
            return "open"
        return "better" if self.low > 0.0 else "worse" if self.high < 0.0 else "open"

    @property
    def closed(self) -> float | None:
        """The share of the distance that is closed; None where there is none to speak of."""
        if self.distance is None or self.source_loss is None or self.distance <= DISTANCE:
            return None
        return (self.source_loss - self.loss) / self.distance


def verdict(rows: dict[str, Row], method: str) -> Verdict | None:
    """Return the verdict about a method, from the rows of one shift and epsilon by method.

    None where the hybrid or all that there is without one are not measured, or were refused on every split.
    """
    measured = {name: row for name, row in rows.items() if row["splits"]}
    alone = [measured[name] for name in ALONE if name in measured]
    if method not in measured or not alone:
        return None
    hybrid, best = measured[method], min(alone, key=lambda row: row["mean"])
    low, high = _paired(best, hybrid)
    source, optimum = measured.get("curator-alone"), measured.get("private-optimum")
    return Verdict(
        hybrid["shift"],
        method,
        hybrid["mean"],
        hybrid.get("gap", 0.0),
        best["method"],
        best["mean"],
        best["mean"] - hybrid["mean"],
        low,
        high,
        None if source is None or optimum is None else source["mean"] - optimum["mean"],
        None if source is None else source["mean"],
    )


def _paired(first: Row, second: Row) -> tuple[float | None, float | None]:
    if len(first["losses"]) != len(second["losses"]):  # one of them was refused on some splits
        return None, None
    return interval((np.array(first["losses"]) - np.array(second["losses"])).tolist())
