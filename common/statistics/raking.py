"""Raking: weights that give a sample the shares that a population is estimated to have.

Everything is computed by sums and functions that are the same on every machine (:mod:`common.statistics.calibration`).
"""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Floats
from common.numerics.elementary import exp, log
from common.statistics.bins import logistic
from common.statistics.calibration import Calibration

_LEAST = 0.1
"""A bin of the population is not taken to be rarer than so many times the sample's."""


def label_ratios(target: float, error: float, sample: float, noise: float = 0.0) -> tuple[float, float]:
    """Return the factors for labels -1 and +1 that give a sample the population's share of +1, as far as it is known.

    The difference of the logarithms of the odds is shrunk by max(0, 1 - (its standard error)^2/(difference)^2), so that
    what noise explains moves nothing.

    Args:
        target, error: Estimated share of +1 in the population, and its standard error.
        sample, noise: That of the sample, and its standard error.
    """
    known, held = (min(max(share, 0.005), 0.995) for share in (target, sample))
    apart = float(log(np.array(known / (1.0 - known))) - log(np.array(held / (1.0 - held))))
    variance = (error / (known * (1.0 - known))) ** 2 + (noise / (held * (1.0 - held))) ** 2
    kept = max(0.0, 1.0 - variance / (apart * apart)) if apart else 0.0
    factor = float(exp(np.array(kept * apart)))
    share = held * factor / (held * factor + 1.0 - held)
    return (1.0 - share) / (1.0 - held), share / held


def smoothed(shares: Floats, sample: Floats, scores: Floats, calibration: Calibration, precision: float) -> Floats:
    """Return estimated shares, shrunk towards the calibration as far as their noise explains the difference.

    The calibrated curve splits every bin's total into labels. What the shares say beyond that is kept in the proportion
    max(0, 1 - (k - 2)/(precision * sum of squared differences)) (James and Stein 1961, positive part), k the number of
    shares: noise alone has a sum of k/precision on average.

    Args:
        shares: As for :func:`common.statistics.calibration.calibrate`, of the population.
        sample: The sample's, of the same shape.
        scores, precision: As there.

    Returns:
        Shape (groups, bins, 2), positive, sum 1.
    """
    least = _LEAST * np.maximum(sample, 0.0)
    totals = np.maximum(shares[:, :, 0] + shares[:, :, 1], least[:, :, 0] + least[:, :, 1])
    odds = calibration.slope * scores[None, :] + np.array(calibration.intercepts)[:, None]
    chance = logistic(odds)
    curve = np.stack([totals * (1.0 - chance), totals * chance], axis=2)
    apart = shares - curve
    distance = math.fsum((apart * apart).ravel().tolist())
    kept = max(0.0, 1.0 - (shares.size - 2) / (precision * distance)) if distance > 0.0 else 0.0
    found = np.maximum(curve + kept * apart, np.maximum(least, 2.0**-40))
    return np.asarray(found / math.fsum(found.ravel().tolist()))


def rake(wanted: Floats, sample: Floats, eta: float, parts: int) -> list[int]:
    """Return the tilt of every item in whole parts, 0..parts, that takes a sample's shares to the wanted ones.

    A weight is multiplied by exp(-eta (1 - tilt)). The largest factor gets tilt 1; factors that are smaller than the
    largest by more than e^eta get 0, so the match is as good as the step allows.

    Args:
        wanted, sample: Shape (items,): wanted are positive; the sample's may be noisy, and count as half a person in
            10,000 at least.
        eta: The curator's step, positive.
        parts: Grid of the tilts.
    """
    ratios = log(np.asarray(wanted / np.maximum(sample, 0.5e-4)))
    values = np.clip(1.0 + (ratios - ratios.max()) / eta, 0.0, 1.0)
    return [int(part) for part in np.rint(values * parts)]
