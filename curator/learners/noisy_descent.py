"""Noisy projected gradient descent on w and the scales: the loop of both algorithms, and its pass over the rows.

A row's part of the gradient is rounded to a public grid before anything is added up. Whole numbers add up exactly, in
any order and in any number of threads, so that the sums of neighbouring samples differ by one row's part and nothing
else; sums of floating-point numbers would differ in what every later addition rounds away, too.
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

_ROUNDED = 1.0 + 2.0**-12  # records and slopes are kept in single precision: so much longer may a row's part be
_ETA = 0.05  # with what probability Theorem B.1 may fail, where it decides alpha
MIN_ALPHA = 2.0**-20  # least weight of the source that is chosen
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

    def parameters(self, features: int) -> int:
        """D, the length of w: here one weight a feature."""
        return features

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

    def losses(self, scores: Floats, responses: Floats) -> Floats:
        """Return the losses of n records within bounds, whose responses are in [-1, 1], without a clip."""
        squared = self.loss == "squared"
        return np.asarray(np.square(scores - responses) if squared else np.logaddexp(0.0, -responses * scores))

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
    def complexity(self) -> float:
        """Of the losses of all w, over the Euclidean length of the weights (see :meth:`DescentSettings.weighted`)."""
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


class Beginning(NamedTuple):
    """Where w begins (None: at 0), how far noise may take it in all, and the loss' smoothness there."""

    start: Floats | None
    reach: float
    smoothness: float


class Prepared(NamedTuple):
    """What is settled before the first iteration: domains within public bounds, their discrepancy, private or exact.

    ``noise`` is sigma_1 and sigma_2, 0 without privacy.
    """

    domains: Domains
    discrepancy: float
    noise: tuple[float, float]
    opening: Beginning


class Rows(NamedTuple):
    """One side in the loop: features in single precision, responses; noise and scales, one number a row."""

    features: Singles
    responses: Floats
    noise: Floats
    scales: Floats


class DescentSettings(AlgorithmFields):
    """Settings of both algorithms, and what follows from them."""

    loss: ClassVar[Loss]
    convex: ClassVar[bool]

    calibration: Calibration = "tight"

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.loss, self.radius, self.norm)

    def clipped(self, domains: Domains) -> Self:
        """Return the same settings with the numbers that the public side decides: a function of no private record."""
        return self

    def discrepancy(self, domains: Domains, opening: Beginning, mu: float | None, source: RandomSource) -> float:
        """Return the estimate of the discrepancy that the source's rows bear: mu-GDP for the private side."""
        radius, around = self.ball(domains)
        side = self.one_sided
        return private_discrepancy(domains, radius, self.norm, mu, source, self.loss, one_sided=side, around=around)

    def ball(self, domains: Domains) -> tuple[float, Floats | None]:
        """Return radius and public centre (None: 0) of the ball of models that the discrepancy is over."""
        if self.local is None:
            return self.radius, None
        return self.local, self.public_fit(domains).weights

    def public_fit(self, domains: Domains) -> PublicFit:
        return fit_public(domains.public.bounded(self.norm), self.loss, self.radius, self.norm)

    def weighted(self, sizes: tuple[int, int], discrepancy: float) -> Self:
        """Return the same settings with the source's weight that ``alpha_from: discrepancy`` stands for.

        Theorem B.1 with q = p holds with probability 1 - eta for all w, and what of its right side depends on alpha,
        beside the mean losses, is

            alpha d + ||p|| (2 c + B sqrt(ln(2/eta)/2)),   ||p||^2 = alpha^2/m + (1 - alpha)^2/n,

        c ||p|| a bound on the weighted Rademacher complexity (Talagrand: G Lambda for w.x). It is convex in alpha. Its
        minimum, by bisection of its slope, is a function of public numbers and of the released d: post-processing. The
        noise is calibrated for it afterwards, so every later release is as private as for an alpha that was given.
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

    def opening(self, domains: Domains, source: RandomSource) -> Beginning:
        """Return where w begins: a function of the public side alone."""
        if self.start == "zero":
            return Beginning(None, self.radius, self.bounds.smoothness)
        known = self.public_fit(domains)
        return Beginning(known.weights, known.reach, self.bounds.smoothness)

    def pass_over(self, rows: list[Rows], weights: Floats, forces: list[Forces]) -> Floats:
        """Move the scales of both sides by one step; return the gradient in w, whole numbers of its unit's grid."""
        sums, single = np.zeros(len(weights), dtype=np.int32), weights.astype(np.float32)
        for side, force in zip(rows, forces, strict=True):
            move_rows(side.features, side.responses, single, side.noise, side.scales, sums, force)
        return whole_sums(sums, sum(len(side.scales) for side in rows))

    def softmax(self, records: int) -> float:
        """Return the sharpness of the softmax; with printed steps, F has the greatest weight itself.

        By default (m + n) ln(m + n): the softmax is then above the maximum by 1/(m + n) at most.
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
        found = step_noise(mu, self.iterations, min(max(share, MIN_SHARE), MAX_SHARE), joint=joint)
        return first * found.gradient, second * found.scales

    @property
    def tested(self) -> tuple[Literal["squared", "zero-one"], float]:
        """What agents measure, and of how many of its units a unit of this loss is an upper bound."""
        raise AssertionError(f"no bound is known of {self.loss}")

    @abstractmethod
    def iterates(self, source: RandomSource) -> tuple[int, int]:
        """Return how many iterations are made, and how many of them are not averaged."""

    @abstractmethod
    def printed_steps(self, prepared: Prepared) -> Steps:
        """Return the paper's."""


@dataclass(frozen=True, repr=False, eq=False)
class Found:
    """Averages over the iterates that count: ``weights``, shape (d,), may be released; ``scales`` are (m + n,).

    So may ``bound``, which is there where one was asked for.
    """

    weights: Floats
    scales: Floats
    bound: TargetBound | None = None


def unit_of(bounds: Bounds, shares: tuple[float, float]) -> float:
    """Return the unit of the gradient's grid, public: one row stays within what it may add, all rows within 2^30."""
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
    rounding = math.sqrt(bounds.parameters(domains.dimension)) * unit_of(bounds, domains.shares(alpha))
    slack = 1.0 + 2.0 * bounds.greatest / CELLS / bounds.width
    return 2.0 * (share * bounds.slope * _ROUNDED + rounding) * slack, bounds.width * slack


def descend(
    settings: DescentSettings, prepared: Prepared, steps: Steps, iterations: int, burn: int, source: RandomSource
) -> Found:
    """Run the loop from w = 0, or a public start, and v = 1 (that is, u at its lower bound).

    The last ``iterations - burn`` iterates are averaged. Both gradients of an iteration are taken at the same point.
    With noise, gradient and noise are whole multiples of one unit, so that what is released is a function of what the
    exact Gaussian mechanism would release for the rounded gradient: post-processing.
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
    return Found(average / count, average_scales / count)


def public_forces(settings: DescentSettings, prepared: Prepared, steps: Steps, scales: Floats) -> list[Forces]:
    """Return the public numbers of source and target; of the norms' parts, those that all rows have in common."""
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
    """Add the rows' parts of the gradient to ``sums``, int32, and move their scales, v, by one step.

    ``noise`` are whole numbers of the losses' grid, one a row; :func:`whole_sums` takes an offset of the sums away.
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
