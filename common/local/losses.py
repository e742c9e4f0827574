"""Losses of a hypothesis on records, in [0, 1], as whole numbers of a public grid; what a reweigh multiplies by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records

Loss = Literal["zero-one", "hinge", "perceptron", "squared"]
"""The losses, with l the label and m the hypothesis's margin.

``zero-one``: 1 for a mistake, else 0. ``hinge``: ``min(1, max(0, 1 - l m(x)))``. ``perceptron``: ``min(1, max(0, -l
m(x)))``, which is the hinge loss of Kohen & Sheffet, Appendix D, with its sign put right. ``squared``: ``(v(x) -
r)^2`` for the value v(x) that the hypothesis predicts and the response r, both in [0, 1].
"""

_GRAINS: dict[Loss, int] = {"zero-one": 1, "hinge": 1024, "perceptron": 1024, "squared": 1024}


def grain(loss: Loss) -> int:
    """Return into how many parts the unit of a loss is divided: 1 where all losses are 0 or 1, else 1024."""
    return _GRAINS[loss]


def evaluate(loss: Loss, hypothesis: Hypothesis, records: Records) -> Floats:
    """Return each record's loss, shape (n,), float64 in [0, 1]. A margin that is not a number has loss 0."""
    if loss == "zero-one":
        return hypothesis.mistakes(records).astype(np.float64)
    if loss == "squared":
        return np.square(hypothesis.values(records.features) - hypothesis.responses(records))
    with np.errstate(all="ignore"):
        margins = hypothesis.labels(records) * hypothesis.margins(records.features).astype(np.float64)
        losses = 1.0 - margins if loss == "hinge" else -margins
    return np.clip(np.nan_to_num(losses, nan=0.0), 0.0, 1.0)


def count(loss: Loss, hypothesis: Hypothesis, records: Records) -> AnyArray:
    """Return each record's loss in whole parts, 0..grain: uint8 for mistakes, uint16 for others.

    Real losses are rounded to the nearest multiple of 2^-10. That is done record by record and by a public rule, so
    it costs no privacy: a rounded loss is a loss in [0, 1] like any other. It costs at most 2^-10 of regret a round
    against any fixed distribution on the records: <mu - mu*, e> <= 2 max |e| for errors |e| <= 2^-11.

    A margin that is not a number has loss 0.
    """
    if loss == "zero-one":
        return hypothesis.mistakes(records)
    return np.asarray(np.rint(evaluate(loss, hypothesis, records) * _GRAINS[loss]), dtype=np.uint16)


class Weighing(Protocol):
    """A public function of one record into [0, 1], on a public grid.

    A reweigh multiplies each weight by ``exp(-eta (1 - value))``. Whatever the function is, log-weights stay functions
    of the record and of public messages, and two of them differ by ``eta t`` at most after t reweighs: this is all that
    the sampling bound rests on (:meth:`curator.weights.reweighing.Reweighing.sampling_bound`).
    """

    @property
    def grain(self) -> int:
        """Into how many parts the unit is divided."""
        ...

    def count(self, records: Records) -> AnyArray:
        """Return each record's value in whole parts, shape (n,), unsigned, 0..grain."""
        ...


@dataclass(frozen=True)
class HypothesisLoss:
    """The loss of a hypothesis (:mod:`common.local.losses`)."""

    hypothesis: Hypothesis
    loss: Loss = "zero-one"

    @property
    def grain(self) -> int:
        return grain(self.loss)

    def count(self, records: Records) -> AnyArray:
        """Return the losses."""
        return count(self.loss, self.hypothesis, records)
