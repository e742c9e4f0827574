"""Fisher's linear discriminant, from one noisy release of both classes' moments."""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from common.learners.half_spaces import DiscriminantSettings
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, Linear
from common.local.records import Records
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.sums import ClassMoments, Moments


@LEARNERS.register("discriminant")
class Discriminant(DiscriminantSettings, Learner):
    """The half-space ``<(W + lambda I)^-1 (m_+ - m_-), x - (m_+ + m_-)/2> + ln(n_+/n_-) > 0``.

    W is the covariance within classes, m the means of the classes and n their sizes, all from one noisy release
    (:class:`curator.mechanisms.sums.ClassMoments`); what is done with it costs nothing more. lambda is ``ridge``
    times the spectral norm that W's noise has, about 2 tau sqrt(d) for symmetric noise of deviation tau (Wigner): where
    the covariance is noise the difference of means decides, and where it is not the discriminant is Fisher's (1936).
    With few people it keeps more of the signal than gradient steps do, which pay for each direction anew
    (docs/learners.md). The score is the logarithm of the odds if classes are normal with equal covariances.

    Class sizes are taken to be at least one standard deviation of their noise.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(mu=2.0, norm=2.0),)

    def noise_numbers(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return 2 * size + size * (size + 1)

    def room(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return (8 << 13) * 4 * size + 8 * 12 * size * size

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        mechanism = ClassMoments(self.norm, access.dimension, self.second, self.mu)
        moments = access.release(mechanism)
        weights, threshold = discriminant(moments, access.people, *mechanism.deviations, self.ridge)
        found = np.clip(np.array(weights) / self.norm, -GREATEST, GREATEST)
        return Linear(weights=tuple(found.tolist()), threshold=float(np.clip(threshold, -GREATEST, GREATEST)))


def discriminant(
    moments: Moments, people: int, plain: float, square: float, ridge: float
) -> tuple[tuple[float, ...], float]:
    """Return the discriminant's weights and threshold, in the units of the moments, for n ``people`` of both classes.

    ``plain`` and ``square`` are the standard deviations of the noise on a sum of features and on one of squares; the
    ridge is in units of the spectral norm of the covariance's noise.
    """
    least = min(2.0 * plain, people / 2.0)
    negative, positive = 2.0 * moments.first[:, 0]
    plus = float(np.clip((positive + people - negative) / 2.0, least, people - least))
    sizes = np.array([people - plus, plus])
    means = moments.first[:, 1:] / sizes[:, None]
    scatter = moments.second[:, 1:, 1:].sum(axis=0) - np.einsum("c,ci,cj->ij", sizes, means, means)
    noise = 2.0 * (square / math.sqrt(2.0)) * math.sqrt(2.0 * means.shape[1]) / people
    values, vectors = np.linalg.eigh(scatter / people)
    apart = vectors.T @ (means[1] - means[0])
    values = np.maximum(values, 0.0)
    turned = apart / (values + ridge * noise)
    # Along w the classes lie <w, m_+ - m_-> apart, a part of which noise has put there, and the variance is w'Ww.
    false = plain * plain * float((1.0 / sizes**2).sum() * (1.0 / (values + ridge * noise)).sum())
    distance = float(turned @ apart)
    slope = max(distance - false, 0.1 * distance) / max(float(turned @ (values * turned)), 0.05 * distance)
    weights = vectors @ (slope * turned)
    threshold = float(weights @ (means[0] + means[1]) / 2.0) - math.log(sizes[1] / sizes[0])
    return tuple(weights.tolist()), threshold
