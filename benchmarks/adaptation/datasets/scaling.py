"""Features on the scale that the learners want, by public numbers only: the source is public, so its moments are."""

from __future__ import annotations

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Raw, Task
from common.core.arrays import Floats
from curator.learners.domains import DomainSide, whitening

NORM = 1.0
"""Largest L2 norm of a scaled row, its constant feature included."""
CONSTANT = 0.5
"""The constant feature, which stands for an intercept."""


def unit(values: Floats, low: float, high: float) -> Floats:
    """Map [low, high] to [-1, 1] and clip: public bounds."""
    return np.clip(2.0 * (np.asarray(values, dtype=np.float64) - low) / (high - low) - 1.0, -1.0, 1.0)


def scaled(
    name: str, task: Task, source: Raw, target: Raw, sizes: tuple[int, int, int], radius: float, copies: int = 1
) -> Pair:
    """Scale both sides by the source's moments, clip rows, and append a constant feature.

    ::

        x -> (clip(whitened x), CONSTANT)         by curator.learners.domains, of the source
        y -> (y - mean) / (1 + |mean|)            in regression; labels stay

    All moments are the source's, so where a target row goes depends on that row and on what is public. The clip
    shortens rows so that, with the constant, none is longer than :data:`NORM`.
    """
    longest = float(np.sqrt(NORM**2 - CONSTANT**2))
    scaling = whitening(source.features, longest)
    centre = float(source.responses.mean()) if task == "regression" else 0.0

    def side(raw: Raw) -> DomainSide:
        rows = _clipped(scaling.moved(raw.features), longest)
        features = np.column_stack([rows, np.full(len(rows), CONSTANT)])
        return DomainSide(features, (raw.responses - centre) / (1.0 + abs(centre)))

    return Pair(name, task, side(source), side(target), sizes, radius, copies)


def _clipped(rows: Floats, longest: float) -> Floats:
    # Shortened by a little more than needed: no rounding makes a row longer.
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, longest * (1.0 - 1e-12) / np.maximum(lengths, longest / 2.0)))
