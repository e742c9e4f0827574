"""One pass over the rows of a side: residuals, the gradient of the weights in whole numbers, and the scales' step.

A row's part of the gradient is rounded to a public grid before anything is added up. Whole numbers add up exactly, in
any order and in any number of threads, so that the sums of neighbouring samples differ by one row's part and nothing
else; sums of floating-point numbers would differ in what every later addition rounds away, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats, Singles
from common.numerics.kernels import bits_of, njit, njit_inlined
from common.numerics.lanes import WIDTH, fma, load, load_some, singles, total
from common.numerics.loops import exp, log

LOSSES = ("squared", "logistic")
LARGEST = 1 << 22
"""Greatest whole number that one row may add to a coordinate."""
CELLS = 1 << 20
"""Cells of the grid on which a row's force lies, from 0 to the greatest loss."""
_EVEN = np.float32(3 << 22)
"""Added to a single up to 2^22, it leaves the nearest integer in the lowest bits."""
_EVEN_BITS = 0x4B400000


class Forces(NamedTuple):
    """Public numbers of one side in one iteration.

    Attributes
    ----------
    loss
        Place in :data:`LOSSES`.
    share
        p, the weight of a row whose scale is 1: alpha/m or (1 - alpha)/n.
    most
        Scores of the logistic loss are clipped to [-most, most], residuals of the squared one, too.
    units
        One over the unit of the gradient's grid.
    cells
        One over the unit of the losses' grid.
    addend
        What is added to the loss: the estimate of the discrepancy, or 0.
    pull
        kappa_1, which draws a scale back to 1 (constant), or weights back to p (with the others, over v^2).
    constant
        Whether ``pull`` is constant.
    euclidean
        kappa_2 over the norm of all weights.
    greatest
        kappa_inf.
    sharpness, level
        A row's part of the greatest weight is ``exp(sharpness (q - level))``.
    step
        Of the scales.
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

    Parameters
    ----------
    features, responses
        Shapes (k, d) and (k,).
    weights
        w, shape (d,).
    noise
        Whole numbers of the losses' grid, shape (k,).
    scales
        v, shape (k,), all at least 1; changed.
    sums
        Shape (d,), int32, every row's part with an offset that :func:`whole_sums` takes away; changed.
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
