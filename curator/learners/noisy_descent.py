"""Noisy projected gradient descent on w and the scales: the loop of both algorithms, and its pass over the rows.

Each row's part of the gradient is rounded to a public grid before summation. Whole numbers add up exactly, in any order
and with any number of threads, so the sums of neighbouring samples differ by one row's part only. Sums of
floating-point numbers would also differ in the rounding of every later addition.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.learners.adaptation import MAX_SHARE, MIN_SHARE, AlgorithmFields, Calibration
from common.numerics.kernels import WIDTH, bits_of, fma, load, load_some, njit, njit_inlined, singles, total
from common.numerics.loops import exp, log
from common.numerics.randomness import RandomSource
from common.operations.target_bound import TargetBound
from common.privacy.rounding import up
from common.privacy.theorems.gaussian_dp import scales_share, step_noise
from curator.learners.discrepancy import private_discrepancy
from curator.learners.domains import Domains, Loss, PublicFit, fit_public
from curator.mechanisms.gaussian_noise import whole_normals

_ROUNDED = 1.0 + 2.0**-12  # a row's part may be longer by this factor, as records and slopes are in single precision
_ETA = 0.05  # probability with which Theorem B.1 may fail, where it determines alpha
MIN_ALPHA = 2.0**-20  # least weight of the source that is chosen
HARD = 1e300  # sharpness at which the softmax is the maximum


@dataclass(frozen=True)
class Bounds:
    """Public bounds on one record, and values derived from them.

    With Lambda = ``radius`` and r = ``norm``, ||w|| <= Lambda and ||x|| <= r; responses are in [-1, 1]. Residuals of
    the squared loss are clipped to +-``residual_clip``, C; None means Lambda r + 1, which no residual exceeds.
    """

    loss: Loss
    radius: float
    norm: float
    residual_clip: float | None = None

    def parameters(self, features: int) -> int:
        """Return d, the number of weights in w: here one per feature."""
        return features

    @property
    def most(self) -> float:
        """Greatest absolute residual (squared loss) or score (logistic loss)."""
        scores = self.radius * self.norm
        if self.loss == "logistic":
            return scores
        return scores + 1.0 if self.residual_clip is None else min(scores + 1.0, self.residual_clip)

    @property
    def greatest(self) -> float:
        """Greatest loss of a record."""
        return self.most**2 if self.loss == "squared" else float(np.logaddexp(0.0, self.most))

    def losses(self, scores: Floats, responses: Floats) -> Floats:
        """Return the losses, without a clip, of n records within bounds, whose responses are in [-1, 1]."""
        squared = self.loss == "squared"
        return np.asarray(np.square(scores - responses) if squared else np.logaddexp(0.0, -responses * scores))

    @property
    def width(self) -> float:
        """B: the greatest difference between the losses of two records at one w."""
        return self.greatest if self.loss == "squared" else self.most

    @property
    def slope(self) -> float:
        """G: greatest norm of a record's gradient; the logistic slope is at most 1/(1 + e^-most)."""
        slope = 2.0 * self.most if self.loss == "squared" else 1.0 / (1.0 + math.exp(-self.most))
        return slope * self.norm

    @property
    def complexity(self) -> float:
        """c: complexity bound of the losses of all w, per unit of ||p|| (see :meth:`DescentSettings.weighted`)."""
        return self.slope * self.radius

    @property
    def smoothness(self) -> float:
        """beta: the loss' gradient is beta-Lipschitz in w."""
        return (2.0 if self.loss == "squared" else 0.25) * self.norm**2


class Steps(NamedTuple):
    """Step sizes of w, and of the source's and the target's scales."""

    weights: float
    source: float
    target: float


class StartingPoint(NamedTuple):
    """Where w starts (None: at 0), how far noise may move it in total, and the smoothness of the loss there."""

    start: Floats | None
    reach: float
    smoothness: float


class Prepared(NamedTuple):
    """The state before the first iteration: domains within public bounds, and their discrepancy, private or exact.

    ``noise`` is sigma_1 and sigma_2, 0 without privacy.
    """

    domains: Domains
    discrepancy: float
    noise: tuple[float, float]
    opening: StartingPoint


class Rows(NamedTuple):
    """One side in the loop: features in single precision, and responses, noise and scales, one number per row."""

    features: Singles
    responses: Floats
    noise: Floats
    scales: Floats


class DescentSettings(AlgorithmFields):
    """Settings of both algorithms, and values derived from them."""

    loss: ClassVar[Loss]
    convex: ClassVar[bool]

    calibration: Calibration = "tight"

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.loss, self.radius, self.norm)

    def clipped(self, domains: Domains) -> Self:
        """Return the settings with numbers that depend on the public side filled in; no private record is used."""
        return self

    def discrepancy(self, domains: Domains, opening: StartingPoint, mu: float | None, source: RandomSource) -> float:
        """Return the estimate of the discrepancy, an addend of the source's losses: mu-GDP for the private side."""
        radius, around = self.ball(domains)
        side = self.one_sided
        return private_discrepancy(domains, radius, self.norm, mu, source, self.loss, one_sided=side, around=around)

    def ball(self, domains: Domains) -> tuple[float, Floats | None]:
        """Return the radius and public centre (None: 0) of the ball of models for the discrepancy."""
        if self.local is None:
            return self.radius, None
        return self.local, self.public_fit(domains).weights

    def public_fit(self, domains: Domains) -> PublicFit:
        return fit_public(domains.public.bounded(self.norm), self.loss, self.radius, self.norm)

    def weighted(self, sizes: tuple[int, int], discrepancy: float) -> Self:
        """Return the settings with ``alpha_from: discrepancy`` resolved to a weight of the source.

        Theorem B.1 with q = p holds with probability 1 - eta for all w. Apart from the mean losses, the part of its
        right side that depends on alpha is

            alpha d + ||p|| (2 c + B sqrt(ln(2/eta)/2)),   ||p||^2 = alpha^2/m + (1 - alpha)^2/n,

        where c ||p|| bounds the weighted Rademacher complexity (Talagrand: c = G Lambda for w.x). It is convex in
        alpha. Its minimum, found by bisection of its slope, is a function of public numbers and of the released d:
        post-processing. The noise is calibrated afterwards, so later releases are as private as with a given alpha.
        """
        if self.alpha_from == "given":
            return self
        (m, n), width = sizes, self.bounds.width * math.sqrt(math.log(2.0 / _ETA) / 2.0)
        factor, low, high = 2.0 * self.bounds.complexity + width, MIN_ALPHA, self.alpha
        for _ in range(60):
            alpha = (low + high) / 2.0
            length = math.hypot(alpha / math.sqrt(m), (1.0 - alpha) / math.sqrt(n))
            falls = discrepancy + factor * (alpha / m - (1.0 - alpha) / n) / length < 0.0
            low, high = (alpha, high) if falls else (low, alpha)
        return self.model_copy(update={"alpha": high})

    def opening(self, domains: Domains, source: RandomSource) -> StartingPoint:
        """Return where w starts, a function of the public side alone."""
        if self.start == "zero":
            return StartingPoint(None, self.radius, self.bounds.smoothness)
        fit = self.public_fit(domains)
        return StartingPoint(fit.weights, fit.reach, self.bounds.smoothness)

    def pass_over(self, rows: list[Rows], weights: Floats, forces: list[Forces]) -> Floats:
        """Move the scales of both sides by one step; return the gradient in w, in whole multiples of its unit."""
        sums, single = np.zeros(len(weights), dtype=np.int32), weights.astype(np.float32)
        for side, force in zip(rows, forces, strict=True):
            move_rows(side.features, side.responses, single, side.noise, side.scales, sums, force)
        return whole_sums(sums, sum(len(side.scales) for side in rows))

    def softmax(self, records: int) -> float:
        """Return the sharpness of the softmax; with the paper's steps, F contains the maximum weight itself.

        The default is (m + n) ln(m + n): the softmax then exceeds the maximum by at most 1/(m + n).
        """
        if self.sharpness is not None:
            return self.sharpness
        return HARD if self.convex and self.steps == "paper" else records * float(np.log(max(records, 3)))

    def noise(self, domains: Domains, mu: float) -> tuple[float, float]:
        """Return sigma_1 and sigma_2 with which all iterations together are mu-GDP (see ``sensitivities``)."""
        self.check_mu(mu)
        first, second = sensitivities(self.bounds, domains, self.alpha)
        share, joint = self.scales_share, self.loss == "squared"
        if self.calibration == "paper":
            share, joint = 0.5, False
        elif share is None:
            # In the paper's variables: s_2 = p^2 B, and U = 1.
            weights = self.radius * math.sqrt(self.bounds.parameters(domains.dimension)) * first
            scales = math.sqrt(domains.people) * domains.private_share(self.alpha) ** 2 * second
            share = scales_share(weights, scales)
        sigmas = step_noise(mu, self.iterations, min(max(share, MIN_SHARE), MAX_SHARE), joint=joint)
        return first * sigmas.gradient, second * sigmas.scales

    @property
    def tested(self) -> tuple[Literal["squared", "zero-one"], float]:
        """The loss that agents measure, and a factor: it is at most this factor times the loss of these settings."""
        raise AssertionError(f"no bound is known of {self.loss}")

    @abstractmethod
    def iterates(self, source: RandomSource) -> tuple[int, int]:
        """Return the number of iterations, and how many of the first are left out of the average."""

    @abstractmethod
    def printed_steps(self, prepared: Prepared) -> Steps:
        """Return the paper's step sizes."""


@dataclass(frozen=True, repr=False, eq=False)
class DescentResult:
    """Averages over the iterates after the burn-in: ``weights``, shape (d,), and ``scales``, shape (m + n,).

    ``weights`` may be released, and so may ``bound``, if one was requested.
    """

    weights: Floats
    scales: Floats
    bound: TargetBound | None = None


def unit_of(bounds: Bounds, shares: tuple[float, float]) -> float:
    """Return the public unit of the gradient's grid: a row stays below :data:`LARGEST` units, all rows within 2^30."""
    return bounds.slope * _ROUNDED * max(2.0**-30, max(shares) / (LARGEST - 1))


def sensitivities(bounds: Bounds, domains: Domains, alpha: float) -> tuple[float, float]:
    """Return s_1 and s_2: how far the gradients of w and of the scales move if one private record is replaced.

    With p the reference weight of a private record, s_1 = 2 p G (Lemma 4.2 (ii)). For the gradient of v = p u divided
    by p, s_2 = B (Lemma 4.2 (iii): p^2 B for the gradient of u), since only the record's own entry moves. If the target
    is private, p = (1 - alpha)/n; if the source is (Section 7), p = alpha/m. The lemma's proof also holds with the
    sides exchanged, since the discrepancy in the source's losses is public by then.

    Rounding is included. It moves the gradient by at most one unit per coordinate and record. It moves an entry of the
    scales' gradient by one cell, a share cell/B of what the entry itself can move, so both sensitivities are increased
    by more than this share.
    """
    share = domains.private_share(alpha)
    rounding = math.sqrt(bounds.parameters(domains.dimension)) * unit_of(bounds, domains.shares(alpha))
    slack = 1.0 + 2.0 * bounds.greatest / CELLS / bounds.width
    return 2.0 * (share * bounds.slope * _ROUNDED + rounding) * slack, bounds.width * slack


def descend(
    settings: DescentSettings, prepared: Prepared, steps: Steps, iterations: int, burn: int, source: RandomSource
) -> DescentResult:
    """Run the loop from w = 0, or a public start, and v = 1 (that is, u at its lower bound).

    The last ``iterations - burn`` iterates are averaged. Both gradients of an iteration are taken at the same point.
    With noise, gradient and noise are whole multiples of one unit. So the result is a function of what the exact
    Gaussian mechanism would release for the rounded gradient: post-processing.
    """
    bounds = settings.bounds
    domains = prepared.domains.bounded(bounds.norm)
    sizes, private = domains.sizes, int(domains.private == "target")
    unit, cell = unit_of(bounds, domains.shares(settings.alpha)), bounds.greatest / CELLS
    scales, start = np.ones(sum(sizes)), prepared.opening.start
    rows = [
        Rows(side.features.astype(np.float32), np.ascontiguousarray(side.responses), np.zeros(len(side)), part)
        for side, part in zip((domains.source, domains.target), np.split(scales, sizes[:1]), strict=True)
    ]
    weights = np.zeros(bounds.parameters(domains.dimension)) if start is None else start.copy()
    average, average_scales = np.zeros_like(weights), np.zeros_like(scales)
    for iteration in range(iterations):
        if prepared.noise[1] > 0.0:
            rows[private].noise[:] = whole_normals(up(prepared.noise[1] / cell), sizes[private], source)
        gradient = settings.pass_over(rows, weights, public_forces(settings, prepared, steps, scales))
        if prepared.noise[0] > 0.0:
            gradient += whole_normals(up(prepared.noise[0] / unit), len(weights), source)
        weights -= steps.weights * unit * gradient
        length = float(np.linalg.norm(weights))
        if length > bounds.radius:
            weights *= bounds.radius / length
        if iteration >= burn:
            average += weights
            average_scales += scales
    count = max(1, iterations - burn)
    return DescentResult(average / count, average_scales / count)


def public_forces(settings: DescentSettings, prepared: Prepared, steps: Steps, scales: Floats) -> list[Forces]:
    """Return the public numbers of source and target, including the parts of the norms common to all rows."""
    sizes, bounds = prepared.domains.sizes, settings.bounds
    shares, sharpness = prepared.domains.shares(settings.alpha), settings.softmax(sum(sizes))
    weights = np.repeat(shares, sizes) / scales
    euclidean = settings.kappa_2 / math.sqrt(float(np.square(weights).sum()))
    greatest = level = 0.0
    if settings.kappa_inf != 0.0:
        level = float(weights.max())
        greatest = settings.kappa_inf / float(np.exp((weights - level) * sharpness).sum())
    return [
        Forces(
            loss=LOSSES.index(bounds.loss),
            share=shares[side],
            most=bounds.most,
            units=1.0 / unit_of(bounds, shares),
            cells=1.0 / (bounds.greatest / CELLS),
            addend=0.0 if side else prepared.discrepancy,
            pull=settings.kappa_1,
            constant=settings.convex,
            euclidean=euclidean,
            greatest=greatest,
            sharpness=sharpness,
            level=level,
            step=steps[1 + side],
        )
        for side in (0, 1)
    ]


LOSSES = ("squared", "logistic", "cross-entropy")
LARGEST = 1 << 22  # greatest whole number that one row may add to a coordinate
CELLS = 1 << 20  # cells of the grid for a row's force, from 0 to the greatest loss
_EVEN = np.float32(3 << 22)  # added to a float32 up to 2^22, it leaves the nearest integer in the lowest bits
_EVEN_BITS = 0x4B400000


class Forces(NamedTuple):
    """Public numbers of one side in one iteration.

    Attributes:
        loss: Index in :data:`LOSSES`.
        share: p, the weight of a row with scale 1: alpha/m or (1 - alpha)/n.
        most: Scores of the logistic loss, and residuals of the squared loss, are clipped to [-most, most].
        units, cells: One over the unit of the gradient's grid, and one over that of the losses' grid.
        addend: Added to the loss: the estimate of the discrepancy, or 0.
        pull: kappa_1, which pulls a scale back to 1 (``constant``), or weights back to p (divided by v^2).
        euclidean: kappa_2 over the norm of all weights.
        greatest: kappa_inf over the sum of the softmax terms of all rows, ``exp(sharpness (q - level))`` each.
        step: Step size of the scales.
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
    """Add the rows' parts of the gradient to ``sums``, int32, and move their scales, v, by one step.

    ``noise`` has one whole number of the losses' grid per row; :func:`whole_sums` subtracts an offset from the sums.
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
        scales[i] = moved_scale(scales[i], weight, loss, noise[i], forces)


@njit_inlined
def moved_scale(scale: Any, weight: Any, loss: Any, noise: Any, forces: Forces) -> Any:
    """Return a row's scale after one step."""
    shrink = 1.0 / (scale * scale)
    force = (np.rint(loss * shrink * forces.cells) + noise) / forces.cells
    force += shrink * (forces.addend + forces.euclidean * weight)
    if forces.greatest > 0.0:
        force += shrink * forces.greatest * exp(forces.sharpness * (weight - forces.level))
    pull = forces.pull if forces.constant else forces.pull * shrink
    return max(1.0, scale + forces.step * (force - pull))


@njit_inlined
def _product(features: Singles, row: int, weights: Singles) -> Any:
    first, even = row * features.shape[1], len(weights) // WIDTH * WIDTH
    sums = singles(0.0)
    for j in range(0, even, WIDTH):
        sums = fma(load(features, first + j), load(weights, j), sums)
    if even < len(weights):
        left = len(weights) - even
        sums = fma(load_some(features, first + even, left), load_some(weights, even, left), sums)
    return total(sums)


def whole_sums(sums: AnyArray, rows: int) -> Floats:
    """Return what ``rows`` rows added to ``sums`` (their totals must fit in int32), without the offset."""
    offset = np.uint32(rows * _EVEN_BITS % (1 << 32))
    return (sums.view(np.uint32) - offset).view(np.int32).astype(np.float64)
