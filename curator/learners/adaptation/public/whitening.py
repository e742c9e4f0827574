"""Features on the scale that the algorithms want, by the moments of a public sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats

WITHIN = 0.75
"""Share of the public rows that are within the norm."""
_CONSTANT = 1e-6
"""A column of a smaller deviation is only centred."""


class Whitening(NamedTuple):
    """An affine map of features, x -> (x - mean)/deviation @ turn: public, and of each row by itself.

    Attributes
    ----------
    mean, deviation
        Shape (d,).
    turn
        Shape (d, d).
    """

    mean: Floats
    deviation: Floats
    turn: Floats

    def moved(self, features: Floats) -> Floats:
        """Return rows of features, shape (k, d), mapped."""
        return (features - self.mean) / self.deviation @ self.turn

    def pulled_back(self, weights: Floats) -> tuple[Floats, float]:
        """Return weights v and a constant b with <v, x> + b = <weights, moved(x)>."""
        own = self.turn @ weights / self.deviation
        return own, -float(self.mean @ own)


def whitening(public: Floats, norm: float) -> Whitening:
    """Return the map for rows of a public sample.

    ::

        x -> c V (D + I)^-1/2 V' standard(x),   standard(x) = (x - mean)/deviation

    V and D are the eigenvectors and values of the correlations. Gradient descent learns the large directions of
    correlated features and nothing else in its first thousands of steps; (D + I)^-1/2 shortens them, and does not blow
    up small ones, in which there is only noise.

    Parameters
    ----------
    public
        Shape (m, d), m positive.
    norm
        c puts :data:`WITHIN` of the rows within this norm.
    """
    mean, deviation = public.mean(axis=0), public.std(axis=0)
    deviation = np.where(deviation > _CONSTANT, deviation, 1.0)
    standard = (public - mean) / deviation
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    turn = (vectors / np.sqrt(np.maximum(values, 0.0) + 1.0)) @ vectors.T
    length = float(np.quantile(np.linalg.norm(standard @ turn, axis=1), WITHIN))
    return Whitening(mean, deviation, turn * (norm / length if length > 0.0 else 1.0))
