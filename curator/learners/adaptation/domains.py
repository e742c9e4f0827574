"""What adaptation learns from: a source and a target sample, one of which is private; and their public scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadData, BadScenario
from common.learners.adaptation import Private


@dataclass(frozen=True, repr=False, eq=False)
class DomainSide:
    """k labelled people of one domain.

    Attributes:
        features: Shape (k, d), float64, finite.
        responses: Shape (k,), float64, finite; -1 or +1 where they are labels.

    Raises:
        BadData: If the shapes do not belong together, there is nobody, or a number is not finite.
    """

    features: Floats
    responses: Floats

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.responses.shape != (len(self.features),) or not self.features.size:
            raise BadData(
                f"a side wants features (k, d) and responses (k,), k and d positive; "
                f"found {self.features.shape} and {self.responses.shape}"
            )
        if not (np.isfinite(self.features).all() and np.isfinite(self.responses).all()):
            raise BadData("features and responses must be finite; drop or clip what is not by public bounds first")

    def __repr__(self) -> str:
        return f"Side(k={len(self)}, d={self.dimension})"

    def __len__(self) -> int:
        return len(self.responses)

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    def bounded(self, norm: float) -> DomainSide:
        """Return the same people within public bounds: ||x|| <= ``norm`` by scaling, |y| <= 1 by clipping.

        Each row is changed by itself alone, so neighbours stay neighbours.
        """
        largest = np.maximum(np.abs(self.features).max(axis=1), np.finfo(np.float64).tiny)
        rows = self.features / largest[:, None]  # of no number that could overflow
        kept = np.minimum(largest, norm / np.linalg.norm(rows, axis=1).clip(1.0))
        within = largest * np.sqrt(len(rows.T)) <= norm  # for sure, so that such rows stay as they are
        moved = np.where(within[:, None], self.features, rows * kept[:, None])
        return DomainSide(moved, np.clip(self.responses, -1.0, 1.0))


@dataclass(frozen=True)
class Domains:
    """Source and target, with the same features.

    Neighbouring domains differ in one record of the private side by replacement, in its fixed place; both sizes are
    public, and so is everything of the other side.

    Attributes:
        source: m people.
        target: n people.
        private: Which of the two is private; ``source`` is the reverse scenario of the paper's Section 7.

    Raises:
        BadScenario: If their features differ in number.
    """

    source: DomainSide
    target: DomainSide
    private: Private = "target"

    def __post_init__(self) -> None:
        if self.source.dimension != self.target.dimension:
            raise BadScenario(
                f"source and target must have the same features, found {self.source.dimension} "
                f"and {self.target.dimension} of them"
            )

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return self.source.dimension

    @property
    def people(self) -> int:
        """Size of the private side."""
        return len(self.source if self.private == "source" else self.target)

    @property
    def public(self) -> DomainSide:
        """The side that everybody may see."""
        return self.target if self.private == "source" else self.source

    def shares(self, alpha: float) -> tuple[float, float]:
        """Return the reference weight of one record of the source, alpha/m, and of the target, (1 - alpha)/n."""
        return alpha / len(self.source), (1.0 - alpha) / len(self.target)

    def private_share(self, alpha: float) -> float:
        """Return the reference weight of one private record."""
        return self.shares(alpha)[self.private == "target"]

    def bounded(self, norm: float) -> Domains:
        """Return the same within public bounds; see :meth:`DomainSide.bounded`."""
        return Domains(self.source.bounded(norm), self.target.bounded(norm), self.private)


WITHIN = 0.75
"""Share of the public rows that are within the norm."""
_CONSTANT = 1e-6
"""A column of a smaller deviation is only centred."""


class Whitening(NamedTuple):
    """An affine map of features, x -> (x - mean)/deviation @ turn: public, and of each row by itself.

    Attributes:
        mean, deviation: Shape (d,).
        turn: Shape (d, d).
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

    Args:
        public: Shape (m, d), m positive.
        norm: c puts :data:`WITHIN` of the rows within this norm.
    """
    mean, deviation = public.mean(axis=0), public.std(axis=0)
    deviation = np.where(deviation > _CONSTANT, deviation, 1.0)
    standard = (public - mean) / deviation
    values, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
    turn = (vectors / np.sqrt(np.maximum(values, 0.0) + 1.0)) @ vectors.T
    length = float(np.quantile(np.linalg.norm(standard @ turn, axis=1), WITHIN))
    return Whitening(mean, deviation, turn * (norm / length if length > 0.0 else 1.0))
