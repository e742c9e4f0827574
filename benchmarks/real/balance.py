"""Survey statistics for volunteers who differ from the population, without privacy.

Both methods weight the volunteers, and both see the volunteers' records in the clear. Of T's people,

* **raking** (:func:`raked`) sees margins: the mean of each feature and of the label, with their standard errors, as a
  census or a reference survey publishes them. The weights have the largest entropy among those that match the margins
  (Hainmueller 2012, entropy balancing; Deville and Saerndal 1992, calibration with the raking distance);
* **inverse propensity** (:func:`odds`) sees the features of each agent, and no label: a logistic regression separates
  agents from volunteers, and a volunteer's weight is the odds of being an agent (Elliott and Valliant 2017).

Neither sees an agent's label together with that agent's features: with these no weights are needed, since a model can
be learned from them directly (the row ``optimum``). Neither can represent people of whom there are no volunteers. A
feature that all volunteers share is left out of both, and margins are matched only as far as Kish's design effect stays
below :data:`DESIGN_EFFECT`: otherwise a few volunteers would have nearly all weight.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from common.core.arrays import AnyArray, Floats, Singles
from common.local.records import Records

DESIGN_EFFECT = 10.0
"""Largest factor by which unequal weights may reduce the effective sample size: n sum w^2/(sum w)^2 (Kish 1965)."""
CAP = 50.0
"""Largest weight by propensities, in multiples of the average: survey statisticians call this trimming."""
_PENALTIES = (*(10.0 / 4.0**step for step in range(9)), 0.0)
"""Added to the margins' variances; features have standard deviation 1. With the first, weights are nearly equal."""


class Margins(NamedTuple):
    """The margins of T that raking uses.

    Attributes:
        means: Means of the features and, last, of the label as 0 or 1; shape (d + 1,).
        errors: Their standard errors, shape (d + 1,).
    """

    means: Floats
    errors: Floats

    @classmethod
    def of(cls, people: Records) -> Self:
        """Return the margins of some people of T."""
        columns = _columns(people)
        return cls(columns.mean(axis=0), columns.std(axis=0) / np.sqrt(len(columns)))


def raked(volunteers: Records, margins: Margins) -> Floats:
    """Return weights of mean 1, shape (volunteers,), with which the volunteers have the margins.

    The weights e^{l.x} maximize the entropy minus the squared deviations from the margins, each divided by its margin's
    variance; l minimizes the convex dual log mean exp(l.(x - m)) + sum_j (e_j^2 + p) l_j^2/2 with p = 0. Errors of 0
    would require an exact match, which may be impossible. The penalty p decreases to 0 from a value with nearly equal
    weights, and stops where the design effect would exceed its bound.

    Args:
        volunteers: At least one.
        margins: Margins of the volunteers' features, and of the label.
    """
    columns = _columns(volunteers)
    scale = columns.std(axis=0)
    kept = scale > 0
    away = (columns - margins.means)[:, kept] / scale[kept]
    errors = np.maximum(margins.errors[kept] / scale[kept], 1e-3)
    tilt, weights = np.zeros(away.shape[1]), np.ones(len(away))
    for penalty in _PENALTIES:
        tilt = _tilt(away, errors**2 + penalty, tilt)
        tried = len(away) * softmax(away @ tilt)
        if design_effect(tried) > DESIGN_EFFECT:
            break
        weights = tried
    return weights


def design_effect(weights: Floats) -> float:
    """Return Kish's design effect of weights, at least 1: the factor by which they reduce the effective sample size."""
    return float(len(weights) * np.sum(weights**2) / np.sum(weights) ** 2)


def odds(volunteers: Singles, agents: Singles) -> Floats:
    """Return weights of mean 1, shape (volunteers,): the odds, capped, of being an agent given the features.

    Args:
        volunteers, agents: Features, shape (people, d).
    """
    kept = varying(volunteers)
    both = np.concatenate([volunteers[:, kept], agents[:, kept]])
    side = np.repeat([0, 1], [len(volunteers), len(agents)])
    model = LogisticRegression(max_iter=2000).fit(both, side)
    chance = expit(model.decision_function(volunteers[:, kept]).astype(np.float64))
    weights = chance / np.maximum(1.0 - chance, 1e-12)
    weights = np.minimum(weights / weights.mean(), CAP)
    return np.asarray(weights / weights.mean(), dtype=np.float64)


def varying(features: Singles) -> AnyArray:
    """Return which features vary among people, shape (d,)."""
    return np.asarray(features.min(axis=0) < features.max(axis=0))


def _tilt(away: Floats, ridge: Floats, start: Floats) -> Floats:
    def dual(tilt: Floats) -> tuple[float, Floats]:
        scores = away @ tilt
        slope = softmax(scores) @ away + ridge * tilt
        return float(logsumexp(scores)) + float(ridge @ tilt**2) / 2.0, slope

    fitted = minimize(dual, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(fitted.x, dtype=np.float64)


def _columns(people: Records) -> Floats:
    return np.column_stack([people.features, people.labels > 0]).astype(np.float64)
