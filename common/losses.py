"""Losses of a hypothesis on records, in [0, 1], as whole numbers of a public grid."""

from __future__ import annotations

from typing import Literal

import numpy as np

from common.arrays import AnyArray
from common.hypotheses.base import Hypothesis
from common.records import Records

Loss = Literal["zero-one", "hinge"]
"""``zero-one``: 1 for a mistake, else 0. ``hinge``: ``min(1, max(0, 1 - l m(x)))``, m the hypothesis's margin."""

_GRAINS: dict[Loss, int] = {"zero-one": 1, "hinge": 1024}


def grain(loss: Loss) -> int:
    """Return into how many parts the unit of a loss is divided: 1 where all losses are 0 or 1, else 1024."""
    return _GRAINS[loss]


def count(loss: Loss, hypothesis: Hypothesis, records: Records) -> AnyArray:
    """Return each record's loss in whole parts, 0..grain: uint8 for mistakes, uint16 for others.

    Real losses are rounded to the nearest multiple of 2^-10. That is done record by record and by a public rule, so
    it costs no privacy: a rounded loss is a loss in [0, 1] like any other. It costs at most 2^-10 of regret a round
    against any fixed distribution on the records: <mu - mu*, e> <= 2 max |e| for errors |e| <= 2^-11.

    A margin that is not a number has loss 0.
    """
    if loss == "zero-one":
        return hypothesis.mistakes(records)
    with np.errstate(all="ignore"):
        losses = 1.0 - records.labels * hypothesis.margins(records.features).astype(np.float64)
    parts = _GRAINS[loss]
    losses = np.clip(np.nan_to_num(losses, nan=0.0), 0.0, 1.0)
    return np.asarray(np.rint(losses * parts), dtype=np.uint16)
