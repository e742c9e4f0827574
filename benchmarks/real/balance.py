"""What a survey statistician does about volunteers who differ from the population, without privacy.

Both ways weigh the volunteers, and both see the volunteers' records in the clear. Of T's people,

* **raking** (:func:`raked`) sees margins: the mean of each feature and of the label, with their standard errors, as a
  census or a reference survey publishes them. Weights are those of the largest entropy that match them
  (Hainmueller 2012, entropy balancing; Deville and Saerndal 1992, calibration with the raking distance);
* **inverse propensity** (:func:`odds`) sees the features of each agent, and no label: a logistic regression tells
  agents from volunteers, and a volunteer weighs the odds of being an agent (Elliott and Valliant 2017).

Neither sees an agent's label beside that agent's features: with these there is nothing to weigh, one learns from them
at once, which is the row ``optimum``. Neither can repair what the volunteers have nobody for. A feature that all
volunteers share is left out of both, and margins are matched only as far as Kish's design effect stays below
:data:`DESIGN_EFFECT`: otherwise a few volunteers would stand for everybody.
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
"""By how much unequal weights may shrink the sample: n sum w^2/(sum w)^2 (Kish 1965)."""
CAP = 50.0
"""By propensities nobody weighs more than so many times the average: survey statisticians call it trimming."""
_PENALTIES = (*(10.0 / 4.0**step for step in range(9)), 0.0)
"""Beyond the margins' variances; features have standard deviation 1. With the first, weights are next to equal."""


class Margins(NamedTuple):
    """What raking knows of T.

    Attributes:
        means: Of the features and, last, of the label as 0 or 1; shape (d + 1,).
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

    The weights e^{l.x} maximize the entropy less the squared misses, each by its margin's variance; l minimizes the
    convex dual log mean exp(l.(x - m)) + sum_j (e_j^2 + p) l_j^2/2 with p = 0. Errors of 0 would ask for an exact
    match, which no weights may have. The penalty p falls to 0 from where weights are next to equal, unless the design
    effect would pass its bound.

    Args:
        volunteers: At least one.
        margins: Of as many features as they have, and of the label.
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
    """Return Kish's design effect of weights, at least 1: so many times smaller is the sample that they leave."""
    return float(len(weights) * np.sum(weights**2) / np.sum(weights) ** 2)


def odds(volunteers: Singles, agents: Singles) -> Floats:
    """Return weights of mean 1, shape (volunteers,): the odds by their features of being an agent, not a volunteer.

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
    """Say which features not everybody shares, shape (d,)."""
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
