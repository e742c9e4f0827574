"""Bins of a score: a public grid that suits every scale, and few bins of about the same number of people."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp

_QUARTERS = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
"""2^(k/4): a library's powers may differ between machines."""


def octave_quarter(step: int) -> float:
    """Return 2^(step/4), the same on every machine."""
    return math.ldexp(_QUARTERS[step % 4], step // 4)


FINE_CUTS: tuple[float, ...] = tuple(
    sorted({0.0, *(sign * octave_quarter(step) for step in range(-12, 17, 2) for sign in (-1.0, 1.0))})
)
"""Halves of octaves from 1/8 to 16 on both sides of 0: whatever the scale of a score is, some of them divide it."""


def middles(cuts: tuple[float, ...]) -> Floats:
    """Return a number inside each bin: the middle, and for the outer ones as far from their cut as the next is wide."""
    inner = [(low + high) / 2.0 for low, high in itertools.pairwise(cuts)]
    if not inner:
        return np.array([cuts[0] - 1.0, cuts[0] + 1.0])
    first, last = cuts[0] - (cuts[1] - cuts[0]) / 2.0, cuts[-1] + (cuts[-1] - cuts[-2]) / 2.0
    return np.array([first, *inner, last])


def coarser(people: Floats, most: int) -> list[int]:
    """Return after which fine bins to cut, ascending, so that at most ``most`` bins have about the same people.

    Args:
        people: Shape (k,): noisy numbers in the fine bins; negative ones count as 0.
        most: At least 2.

    Returns:
        Numbers b: cut between the fine bins b and b + 1. At least one.
    """
    held = np.cumsum(np.maximum(people, 0.0))
    if held[-1] <= 0.0:
        return [len(people) // 2 - 1]
    wanted = [held[-1] * part / most for part in range(1, most)]
    cuts = {min(int(np.searchsorted(held, level)), len(people) - 2) for level in wanted}
    return sorted(cuts)


def project_to_simplex(people: Floats, total: float) -> Floats:
    """Return the nearest numbers of people that are not negative and have the given sum, shape (k,).

    The projection takes the same number from each count and cuts at 0, so it clears empty bins of noise; cutting alone
    would leave half of it there (Duchi, Shalev-Shwartz, Singer and Chandra 2008).

    Args:
        people: Shape (k,): noisy numbers.
        total: Positive.
    """
    falling = sorted(people.tolist(), reverse=True)
    held, level = 0.0, 0.0
    for place, count in enumerate(falling, 1):
        held += count
        if count - (held - total) / place <= 0.0:
            break
        level = (held - total) / place
    cleaned: Floats = np.maximum(people - level, 0.0)
    return cleaned


@dataclass(frozen=True, eq=False)
class Within:
    """How people are assumed to lie inside coarse bins: those of a sample, by its fine ones.

    Attributes:
        starts: The first fine bin of each coarse one, ascending, the first 0.
        scores, weights: Shape (fine bins,): a score that stands for each, and its part of its coarse bin's people.
    """

    starts: tuple[int, ...]
    scores: Floats
    weights: Floats

    @classmethod
    def of(cls, people: Floats, cuts: list[int], values: Floats) -> Within:
        """Return them from noisy numbers of people in the fine bins; where there are none, all fine bins count alike.

        Args:
            people, values: Shape (fine bins,): people, and the score that stands for each bin.
            cuts: As :func:`coarser` gives them.
        """
        starts = (0, *(cut + 1 for cut in cuts))
        weights = np.maximum(people, 0.0)
        for begin, end in itertools.pairwise((*starts, len(people))):
            total = math.fsum(weights[begin:end].tolist())
            weights[begin:end] = weights[begin:end] / total if total > 0.0 else 1.0 / (end - begin)
        return cls(starts, values, weights)

    @property
    def middles(self) -> Floats:
        """The mean score of each coarse bin, shape (bins,)."""
        middles: Floats = self._means(self.scores[None, :])[0]
        return middles

    def means(self, slope: float, intercepts: Floats) -> Floats:
        """Return the mean of 1/(1 + e^-(slope * score + intercept)) over each coarse bin, shape (intercepts, bins)."""
        return self._means(logistic(slope * self.scores[None, :] + intercepts[:, None]))

    def losses(self, slope: float, intercepts: Floats, masses: Floats, cut: float) -> Floats:
        """Return the 0/1 loss of "+1 above a score" if labels go by the logistic curve, shape (intercepts,).

        Args:
            masses: Shape (bins,): each coarse bin's share of people.
        """
        chance = logistic(slope * self.scores[None, :] + intercepts[:, None])
        wrong = np.where(self.scores[None, :] > cut, 1.0 - chance, chance)
        return ordered_sum(masses[None, :] * self._means(wrong))

    def _means(self, values: Floats) -> Floats:
        found = np.zeros((len(values), len(self.starts)))
        ends = (*self.starts[1:], len(self.scores))
        for place, (begin, end) in enumerate(zip(self.starts, ends, strict=True)):
            for fine in range(begin, end):
                found[:, place] = found[:, place] + self.weights[fine] * values[:, fine]
        return found


_FAR = 40.0
"""Odds beyond e^40 are those of certainty."""


def logistic(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise; scores count as at most 40 from 0."""
    return np.asarray(1.0 / (1.0 + exp(-np.clip(scores, -_FAR, _FAR))))


def ordered_sum(terms: Floats) -> Floats:
    """Return the sums over the last axis, one term after the other."""
    total = np.zeros(terms.shape[:-1])
    for place in range(terms.shape[-1]):
        total = total + terms[..., place]
    return total
