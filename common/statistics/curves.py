"""The logistic curve, and sums in a fixed order: the same on every machine."""

from __future__ import annotations

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp

_FAR = 40.0
"""Odds beyond e^40 are those of certainty."""


def chances(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise; scores count as at most 40 from 0."""
    return np.asarray(1.0 / (1.0 + exp(-np.clip(scores, -_FAR, _FAR))))


def ordered(terms: Floats) -> Floats:
    """Return the sums over the last axis, one term after the other."""
    total = np.zeros(terms.shape[:-1])
    for place in range(terms.shape[-1]):
        total = total + terms[..., place]
    return total
