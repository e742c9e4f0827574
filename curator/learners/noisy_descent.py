"""Noisy projected gradient descent on w and the scales: the loop of both algorithms, and its pass over the rows.

A row's part of the gradient is rounded to a public grid before anything is added up. Whole numbers add up exactly, in
any order and in any number of threads, so that the sums of neighbouring samples differ by one row's part and nothing
else; sums of floating-point numbers would differ in what every later addition rounds away, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.numerics.kernels import WIDTH, bits_of, fma, load, load_some, njit, njit_inlined, singles, total
from common.numerics.loops import exp, log
from common.numerics.randomness import RandomSource
from common.privacy.rounding import up
from curator.learners.domains import Domains, Loss
from curator.mechanisms.gaussian_noise import whole_normals

_ROUNDED = 1.0 + 2.0**-12  # records and slopes are kept in single precision: so much longer may a row's part be
HARD = 1e300  # A softmax so sharp that it is the maximum


@dataclass(frozen=True)
class Bounds:
    """Public bounds on one record, and what follows from them.

    With Lambda = ``radius`` and r = ``norm``, ||w|| <= Lambda and ||x|| <= r; responses are in [-1, 1]. Residuals of
    the squared loss are clipped to +-``residual_clip``, C; None for Lambda r + 1, which none exceeds.
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
    """What the loop does, all of it public, in the terms of problems (6) and (7) (docs/adaptation.md).

    Attributes:
        sharpness: :data:`HARD` for the maximum itself.
        discrepancy: d, public by now.
        step_weights: Of w.
        steps_scales: Of the source's and of the target's v, for the gradient divided by p.
        gradient_noise, scales_noise: sigma_1 and, for the gradient of v divided by p, sigma_2; 0 for none.
        burn: Iterates before this one are not averaged.
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
    """Averages over the iterates that count: only ``weights``, shape (d,), may be released.

    There is one of the ``scales``, shape (m + n,), for each record, the source's first.
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
    rounded gradient: post-processing. Records are brought within ``bounds`` first.
    """
    domains, sizes, private = domains.bounded(bounds.norm), domains.sizes, int(domains.private == "target")
    unit, cell = unit_of(bounds, domains.shares(course.alpha)), bounds.greatest / CELLS
    sides = (domains.source, domains.target)
    rows = [(side.features.astype(np.float32), np.ascontiguousarray(side.responses)) for side in sides]
    scales, noises = np.ones(sum(sizes)), [np.zeros(size) for size in sizes]
    weights = np.zeros(domains.dimension) if start is None else start.copy()
    parts = np.split(scales, sizes[:1])
    average, average_scales = np.zeros_like(weights), np.zeros_like(scales)
    for iteration in range(course.iterations):
        if course.scales_noise > 0.0:
            noises[private][:] = whole_normals(up(course.scales_noise / cell), sizes[private], source)
        sums, single = np.zeros(domains.dimension, dtype=np.int32), weights.astype(np.float32)
        for side, forces in enumerate(_forces(course, bounds, domains, scales)):
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


def _forces(course: Course, bounds: Bounds, domains: Domains, scales: Floats) -> list[Forces]:
    """Return the public numbers of source and target; of the norms' parts, those that all rows have in common."""
    shares = domains.shares(course.alpha)
    weights = np.repeat(shares, domains.sizes) / scales
    euclidean = course.kappa_2 / math.sqrt(float(np.square(weights).sum()))
    greatest = level = 0.0
    if course.kappa_inf != 0.0:
        level = float(weights.max())
        greatest = course.kappa_inf / float(np.exp((weights - level) * course.sharpness).sum())
    return [
        Forces(
            loss=LOSSES.index(bounds.loss),
            share=shares[side],
            most=bounds.most,
            units=1.0 / unit_of(bounds, shares),
            cells=1.0 / (bounds.greatest / CELLS),
            addend=0.0 if side else course.discrepancy,
            pull=course.kappa_1,
            constant=course.convex,
            euclidean=euclidean,
            greatest=greatest,
            sharpness=course.sharpness,
            level=level,
            step=course.steps_scales[side],
        )
        for side in (0, 1)
    ]


LOSSES = ("squared", "logistic")
LARGEST = 1 << 22  # greatest whole number that one row may add to a coordinate
CELLS = 1 << 20  # cells of the grid on which a row's force lies, from 0 to the greatest loss
_EVEN = np.float32(3 << 22)  # added to a single up to 2^22, it leaves the nearest integer in the lowest bits
_EVEN_BITS = 0x4B400000


class Forces(NamedTuple):
    """Public numbers of one side in one iteration.

    Attributes:
        loss: Place in :data:`LOSSES`.
        share: p, the weight of a row whose scale is 1: alpha/m or (1 - alpha)/n.
        most: Scores of the logistic loss, and residuals of the squared one, are clipped to [-most, most].
        units, cells: One over the units of the gradient's and of the losses' grid.
        addend: To the loss: the estimate of the discrepancy, or 0.
        pull: kappa_1, which draws a scale back to 1 (``constant``), or weights back to p (with the others, over v^2).
        euclidean: kappa_2 over the norm of all weights.
        greatest: kappa_inf over the sum of all rows' parts of the greatest weight, ``exp(sharpness (q - level))`` each.
        step: Of the scales.
    """

    loss: int
    share: float
    most: float
    units: float
    cells: float
    addend: float
    pull: float
    constant: bool
    euclidean: float
    greatest: float
    sharpness: float
    level: float
    step: float


@njit
def move_rows(
    features: Singles,
    responses: Floats,
    weights: Singles,
    noise: Floats,
    scales: Floats,
    sums: AnyArray,
    forces: Forces,
) -> None:
    """Add the rows' parts of the gradient to ``sums``, and move their scales by one step.

    ``noise`` are whole numbers of the losses' grid, one a row; ``scales``, v, are at least 1; ``sums``, int32, has
    every row's part with an offset that :func:`whole_sums` takes away.
    """
    for i in range(len(features)):
        score = float(_product(features, i, weights))
        if forces.loss == 0:
            residual = min(max(score - responses[i], -forces.most), forces.most)
            loss, slope = residual * residual, 2.0 * residual
        else:
            margin = min(max(responses[i] * score, -forces.most), forces.most)
            power = exp(-abs(margin))
            loss = log(1.0 + power) - min(margin, 0.0)
            slope = -responses[i] * (power if margin > 0.0 else 1.0) / (1.0 + power)
        weight = forces.share / scales[i]
        coefficient = np.float32(slope * weight * forces.units)
        for j in range(features.shape[1]):
            sums[j] += bits_of(fma(coefficient, features[i, j], _EVEN))
        shrink = 1.0 / (scales[i] * scales[i])
        force = (np.rint(loss * shrink * forces.cells) + noise[i]) / forces.cells
        force += shrink * (forces.addend + forces.euclidean * weight)
        if forces.greatest > 0.0:
            force += shrink * forces.greatest * exp(forces.sharpness * (weight - forces.level))
        pull = forces.pull if forces.constant else forces.pull * shrink
        scales[i] = max(1.0, scales[i] + forces.step * (force - pull))


@njit_inlined
def _product(features: Singles, row: int, weights: Singles) -> Any:
    first, whole = row * features.shape[1], len(weights) // WIDTH * WIDTH
    sums = singles(0.0)
    for j in range(0, whole, WIDTH):
        sums = fma(load(features, first + j), load(weights, j), sums)
    if whole < len(weights):
        left = len(weights) - whole
        sums = fma(load_some(features, first + whole, left), load_some(weights, whole, left), sums)
    return total(sums)


def whole_sums(sums: AnyArray, rows: int) -> Floats:
    """Return what ``rows`` rows added to ``sums`` (their totals must fit in int32), without the offset."""
    offset = np.uint32(rows * _EVEN_BITS % (1 << 32))
    return (sums.view(np.uint32) - offset).view(np.int32).astype(np.float64)
