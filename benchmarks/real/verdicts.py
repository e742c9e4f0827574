"""Two criteria for a hybrid answer on each shift: not worse than one side alone, and close to the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.real.methods import ALONE
from benchmarks.real.running import Row, interval

DISTANCE = 0.02
"""Least distance between source model and optimum that counts; a smaller one is negligible."""
CLOSED = 0.7
"""The part of it that a hybrid answer should close."""

Relation = Literal["better", "open", "worse"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a hybrid answer on one shift.

    Attributes:
        shift, method, loss, gap: The shift and method, its mean loss and its mean stated gap.
        best, best_loss: The one of curator alone, agents alone and the constant with the least mean loss on these same
            splits: selected afterwards, so the comparison favours it over the hybrid.
        gained, low, high: By how much the hybrid's loss is below that, with the 95% interval of the difference on the
            same splits (None with a single split).
        distance: From the private source model's loss to that of the private optimum; None if one of them is missing.
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
        """Whether the hybrid is better than the best without a hybrid, worse, or open: one rule for both directions.

        Better only if the interval of the gain is above 0, worse only if it is below; if it contains 0, or there is
        none, these splits do not decide. The gap that the run states is a different quantity: what its judges can
        guarantee on one split, however good the answer is.
        """
        if self.low is None or self.high is None:
            return "open"
        return "better" if self.low > 0.0 else "worse" if self.high < 0.0 else "open"

    @property
    def closed(self) -> float | None:
        """The share of the distance that is closed; None if the distance is negligible."""
        if self.distance is None or self.source_loss is None or self.distance <= DISTANCE:
            return None
        return (self.source_loss - self.loss) / self.distance


def verdict(rows: dict[str, Row], method: str) -> Verdict | None:
    """Return the verdict on a method, from the rows of one shift and epsilon by method.

    None if the hybrid, or all alternatives without a hybrid, were not measured or were refused on every split.
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
    if len(first["losses"]) != len(second["losses"]):  # one method was refused on some splits
        return None, None
    return interval((np.array(first["losses"]) - np.array(second["losses"])).tolist())
