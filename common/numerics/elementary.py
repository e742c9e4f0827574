"""Exponential, logarithm, cosine and sine by additions, multiplications and divisions only: equal on all machines.

Libraries have several versions of these functions and select one by the processor's instructions (NumPy for AVX-512,
the C library for fused multiply-adds), and their last bits differ. A seeded run must not depend on that.

The formulas are those of fdlibm (Sun Microsystems, 1993), with errors below one unit in the last place. The cores of
the first two are plain arithmetic, applied to arrays here and to scalars in compiled loops
(:mod:`common.numerics.loops`); both give the same bits.
"""

from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats

HIGH, LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 = HIGH + LOW; HIGH times a whole number below 2^20 is exact."""
PER_LOG_2 = 1.44269504088896338700
HALF_ROOT = 0.70710678118654752440


def reduced_exp(high: Any, low: Any) -> Any:
    """Return e^(high - low), for a difference in [-ln(2)/2, ln(2)/2] and a tiny ``low``."""
    r = high - low
    t = r * r
    p = 4.13813679705723846039e-08
    p = -1.65339022054652515390e-06 + t * p
    p = 6.61375632143793436117e-05 + t * p
    p = -2.77777777770155933842e-03 + t * p
    p = 1.66666666666666019037e-01 + t * p
    c = r - t * p
    return 1.0 - ((low - (r * c) / (2.0 - c)) - high)


def reduced_log(f: Any, exponent: Any) -> Any:
    """Return ln((1 + f) 2^exponent), for 1 + f in [sqrt(1/2), sqrt(2)]."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = 1.818357216161805012e-01 + w * 1.479819860511658591e-01
    odd = 6.666666666666735130e-01 + w * (2.857142874366239149e-01 + w * odd)
    r = even + z * odd
    half = 0.5 * f * f
    return exponent * HIGH - ((half - (s * (half + r) + exponent * LOW)) - f)


# Coefficients of cos x and sin x for x in [-pi/4, pi/4], in powers of x^2, the highest first.
_COSINE = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip
_SINE = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip


def exp(x: Floats) -> Floats:
    """Return e^x, elementwise."""
    x = np.minimum(np.maximum(x, -746.0), 710.0)
    exponent = np.rint(x * PER_LOG_2)
    return np.asarray(np.ldexp(reduced_exp(x - exponent * HIGH, exponent * LOW), exponent.astype(np.int32)))


def log(x: Floats) -> Floats:
    """Return ln x of positive numbers, elementwise."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < HALF_ROOT
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    return np.asarray(reduced_log(mantissa - 1.0, exponent.astype(np.float64) - small))


def softplus(x: Floats) -> Floats:
    """Return ln(1 + e^x), elementwise, up to an error of 2^-52."""
    return np.asarray(np.maximum(x, 0.0) + log(1.0 + exp(-np.abs(x))))


FAR = 40.0  # log odds beyond this count as certainty


def logistic(scores: Floats) -> Floats:
    """Return 1/(1 + e^-s) of each score, elementwise; scores are clipped to [-40, 40]."""
    return np.asarray(1.0 / (1.0 + exp(-np.clip(scores, -FAR, FAR))))


def softmax(scores: Floats) -> Floats:
    """Return the softmax of each row of scores, shape (n, k); sums are in the order of the columns."""
    powers = exp(np.maximum(scores - scores.max(axis=1, keepdims=True), -_LEAST))
    return np.asarray(powers / ordered_sum(powers)[:, None])


def ordered_sum(terms: Floats) -> Floats:
    """Return the sums over the last axis, in order from the first term on.

    In contrast, the BLAS sums a product (``@``) in an order that depends on the processor.
    """
    total = np.zeros(terms.shape[:-1])
    for place in range(terms.shape[-1]):
        total = total + terms[..., place]
    return total


_LEAST = 80.0  # distance below the greatest score at which a share no longer changes a sum


def cosine(x: AnyArray) -> Floats:
    """Return cos x, elementwise, for x up to some thousands, with an error of 2^-53 of x."""
    turn = x / (2.0 * np.pi)
    return turned(turn - np.rint(turn))[0]


def turned(turn: AnyArray) -> tuple[Floats, Floats]:
    """Return cos(2 pi t) and sin(2 pi t) of a number of turns t in [-1, 1], elementwise."""
    quarter = np.rint(4.0 * turn)
    x = (turn - 0.25 * quarter) * (2.0 * np.pi)
    z = x * x
    cosine, sine = 1.0 - (0.5 * z - z * (z * np.polyval(_COSINE, z))), x + x * (z * np.polyval(_SINE, z))
    place = quarter.astype(np.int64) & 3
    swapped = (place & 1) == 1
    first, second = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    return np.where((place == 1) | (place == 2), -first, first), np.where(place >= 2, -second, second)
