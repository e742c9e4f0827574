"""Noisy projected gradient descent on w and the scales: the loop that both algorithms share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from curator.learners.adaptation.domains import Domains
from curator.learners.adaptation.passes import CELLS, LARGEST, LOSSES, Forces, move_rows, whole_sums
from curator.learners.adaptation.public.discrepancy import Loss
from curator.numerics.gaussian_noise import whole_normals

_ROUNDED = 1.0 + 2.0**-12
"""Records and slopes are kept in single precision: so much longer may a row's part be."""
HARD = 1e300
"""A softmax so sharp that it is the maximum."""


@dataclass(frozen=True)
class Bounds:
    """Public bounds on one record, and what follows from them.

    Attributes
    ----------
    loss
        ``squared`` or ``logistic``.
    radius, norm
        Lambda and r: ||w|| <= Lambda, ||x|| <= r; responses in [-1, 1].
    residual_clip
        C: residuals of the squared loss are clipped to [-C, C]; None for Lambda r + 1, which none exceeds.
    """

    loss: Loss
    radius: float
    norm: float
    residual_clip: float | None = None

    @property
    def most(self) -> float:
        """Greatest size of a residual (squared loss) or of a score (logistic loss)."""
        scores = self.radius * self.norm
        if self.loss == "logistic":
            return scores
        return scores + 1.0 if self.residual_clip is None else min(scores + 1.0, self.residual_clip)

    @property
    def greatest(self) -> float:
        """Greatest loss of a record."""
        return self.most**2 if self.loss == "squared" else float(np.logaddexp(0.0, self.most))

    @property
    def width(self) -> float:
        """B: by how much the losses of two records can differ at one w."""
        return self.greatest if self.loss == "squared" else self.most

    @property
    def slope(self) -> float:
        """G: greatest norm of a record's gradient; the logistic slope is 1/(1 + e^-most) at most."""
        slope = 2.0 * self.most if self.loss == "squared" else 1.0 / (1.0 + math.exp(-self.most))
        return slope * self.norm

    @property
    def smoothness(self) -> float:
        """beta: the loss' gradient is beta-Lipschitz in w."""
        return (2.0 if self.loss == "squared" else 0.25) * self.norm**2


@dataclass(frozen=True)
class Course:
    """What the loop does, all of it public.

    Attributes
    ----------
    alpha, kappa_1, kappa_2, kappa_inf, sharpness, convex
        As in :class:`~curator.learners.adaptation.objective.Objective`; :data:`HARD` for the maximum itself.
    discrepancy
        d, public by now.
    iterations
        How many.
    step_weights
        Of w.
    steps_scales
        Of the source's and of the target's v, for the gradient divided by p.
    gradient_noise, scales_noise
        sigma_1 and, for the gradient of v divided by p, sigma_2; 0 for none.
    burn
        Iterates before this one are not averaged; ``iterations - 1`` gives the last one alone.
    """

    alpha: float
    kappa_1: float
    kappa_2: float
    kappa_inf: float
    sharpness: float
    convex: bool
    discrepancy: float
    iterations: int
    step_weights: float
    steps_scales: tuple[float, float]
    gradient_noise: float
    scales_noise: float
    burn: int = 0


@dataclass(frozen=True, repr=False, eq=False)
class Found:
    """Averages over the iterates that count: only ``weights`` may be released, a scale is one number per record.

    Attributes
    ----------
    weights
        Shape (d,).
    scales
        Shape (m + n,), the source first.
    """

    weights: Floats
    scales: Floats


def unit_of(bounds: Bounds, shares: tuple[float, float]) -> float:
    """Return the unit of the gradient's grid, public: one row stays within what it may add, all rows within 2^30.

    All weights sum to 1 at most, so all rows together add G/unit, and half a unit each for rounding.
    """
    return bounds.slope * _ROUNDED * max(2.0**-30, max(shares) / (LARGEST - 1))


def sensitivities(bounds: Bounds, domains: Domains, alpha: float) -> tuple[float, float]:
    """Return s_1 and s_2: how far the gradients of w and of the scales move if one private record is replaced.

    With p the reference weight of a private record, s_1 = 2 p G (Lemma 4.2 (ii)) and, for the gradient of v = p u
    divided by p, s_2 = B (Lemma 4.2 (iii): p^2 B for the gradient of u), as only the record's own entry moves.
    Where the target is private, p = (1 - alpha)/n; where the source is (Section 7), p = alpha/m: the lemma's proof
    reads the same with the sides exchanged, and the discrepancy, which the source's rows have, is public by then.

    Rounding is included. It moves the gradient by one unit a coordinate and record at most. It moves an entry of the
    scales' gradient by one cell: in units of the noise that is cell/B of what the entry itself can move, so both
    sensitivities grow by more than this share.
    """
    share = domains.private_share(alpha)
    rounding = math.sqrt(domains.dimension) * unit_of(bounds, domains.shares(alpha))
    slack = 1.0 + 2.0 * bounds.greatest / CELLS / bounds.width
    return 2.0 * (share * bounds.slope * _ROUNDED + rounding) * slack, bounds.width * slack


def descend(
    domains: Domains, bounds: Bounds, course: Course, source: RandomSource, start: Floats | None = None
) -> Found:
    """Run the loop from w = 0, or a public start, and v = 1 (that is, u at its lower bound).

    Both gradients of an iteration are taken at the same point. With noise, gradient and noise are whole multiples of
    one unit, so that what is released is a function of what the exact Gaussian mechanism would release for the
    rounded gradient: post-processing.

    Parameters
    ----------
    domains
        Any; records are brought within ``bounds`` first.
    start
        A public w within the ball, shape (d,); None for 0.
    """
    domains = domains.bounded(bounds.norm)
    sides, shares = (domains.source, domains.target), domains.shares(course.alpha)
    unit, cell = unit_of(bounds, shares), bounds.greatest / CELLS
    rows = [(side.features.astype(np.float32), np.ascontiguousarray(side.responses)) for side in sides]
    sizes = [len(side) for side in sides]
    cut = sizes[0]
    references = np.repeat(shares, sizes)
    scales = np.ones(sum(sizes))
    weights = np.zeros(domains.dimension) if start is None else start.copy()
    parts = [scales[:cut], scales[cut:]]
    noises = [np.zeros(size) for size in sizes]
    private = int(domains.private == "target")
    average, average_scales = np.zeros_like(weights), np.zeros_like(scales)
    for iteration in range(course.iterations):
        if course.scales_noise > 0.0:
            noises[private][:] = whole_normals(up(course.scales_noise / cell), sizes[private], source)
        euclidean, greatest, level = _shared(course, references, scales)
        sums = np.zeros(domains.dimension, dtype=np.int32)
        single = weights.astype(np.float32)
        for side in (0, 1):
            forces = Forces(
                loss=LOSSES.index(bounds.loss),
                share=shares[side],
                most=bounds.most,
                units=1.0 / unit,
                cells=1.0 / cell,
                addend=0.0 if side else course.discrepancy,
                pull=course.kappa_1,
                constant=course.convex,
                euclidean=euclidean,
                greatest=greatest,
                sharpness=course.sharpness,
                level=level,
                step=course.steps_scales[side],
            )
            move_rows(*rows[side], single, noises[side], parts[side], sums, forces)
        gradient = whole_sums(sums, sum(sizes))
        if course.gradient_noise > 0.0:
            gradient += whole_normals(up(course.gradient_noise / unit), len(weights), source)
        weights -= course.step_weights * unit * gradient
        length = float(np.linalg.norm(weights))
        if length > bounds.radius:
            weights *= bounds.radius / length
        if iteration >= course.burn:
            average += weights
            average_scales += scales
    count = max(1, course.iterations - course.burn)
    return Found(average / count, average_scales / count)


def _shared(course: Course, references: Floats, scales: Floats) -> tuple[float, float, float]:
    """Return what rows get of the norms of all weights: kappa_2 over the Euclidean one, kappa_inf over the greatest's.

    A row's part of the greatest weight is ``exp(sharpness (q - level))`` over their sum, by which kappa_inf is divided;
    the third number is the level.
    """
    weights = references / scales
    euclidean = course.kappa_2 / math.sqrt(float(np.square(weights).sum()))
    if course.kappa_inf == 0.0:
        return euclidean, 0.0, 0.0
    level = float(weights.max())
    total = np.exp((weights - level) * course.sharpness).sum()
    return euclidean, course.kappa_inf / float(total), level
