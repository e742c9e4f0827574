"""What a survey statistician does about volunteers who differ from the population, without privacy.

Both ways weigh the volunteers, and both see the volunteers' records in the clear. Of T's people,

* **raking** (:func:`raked`) sees margins: the mean of each feature and of the label, with their standard errors, as a
  census or a reference survey publishes them. Weights are those of the largest entropy that match them
  (Hainmueller 2012, entropy balancing; Deville and Saerndal 1992, calibration with the raking distance);
* **inverse propensity** (:func:`odds`) sees the features of each agent, and no label: a logistic regression tells
  agents from volunteers, and a volunteer weighs the odds of being an agent (Elliott and Valliant 2017).

Neither sees an agent's label beside that agent's features: with these there is nothing to weigh, one learns from them
at once, which is the row ``optimum``. Neither can repair what the volunteers have nobody for: margins are then matched
as nearly as the penalty and the cap allow.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

from common.core.arrays import Floats, Singles
from common.vocabulary.records import Records

CAP = 50.0
"""Nobody weighs more than so many times the average: what survey statisticians call trimming."""


class Margins(NamedTuple):
    """What raking knows of T.

    Attributes
    ----------
    means
        Of the features and, last, of the label as 0 or 1; shape (d + 1,).
    errors
        Their standard errors, shape (d + 1,).
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
    convex dual log mean exp(l.(x - m)) + sum_j (e_j l_j)^2/2. With e = 0 the match would be exact, and for
    margins that no weights have there would be none.

    Parameters
    ----------
    volunteers
        At least one.
    margins
        Of as many features as they have, and of the label.
    """
    away = _columns(volunteers) - margins.means
    scale = np.maximum(away.std(axis=0), 1e-9)
    away, errors = away / scale, np.maximum(margins.errors, 1e-3 * scale) / scale

    def dual(tilt: Floats) -> tuple[float, Floats]:
        scores = away @ tilt
        slope = softmax(scores) @ away + errors**2 * tilt
        return float(logsumexp(scores)) + float(np.sum((errors * tilt) ** 2)) / 2.0, slope

    fitted = minimize(dual, np.zeros(away.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return _trimmed(softmax(away @ fitted.x))


def odds(volunteers: Singles, agents: Singles) -> Floats:
    """Return weights of mean 1, shape (volunteers,): the odds by their features of being an agent, not a volunteer.

    Parameters
    ----------
    volunteers, agents
        Features, shape (people, d).
    """
    both = np.concatenate([volunteers, agents])
    side = np.repeat([0, 1], [len(volunteers), len(agents)])
    model = LogisticRegression(max_iter=2000).fit(both, side)
    chance = expit(model.decision_function(volunteers).astype(np.float64))
    return _trimmed(chance / np.maximum(1.0 - chance, 1e-12))


def _columns(people: Records) -> Floats:
    return np.column_stack([people.features, people.labels > 0]).astype(np.float64)


def _trimmed(weights: Floats) -> Floats:
    """Return weights of mean 1, none of them above the cap by more than the last division makes of it."""
    weights = np.minimum(weights / weights.mean(), CAP)
    return np.asarray(weights / weights.mean(), dtype=np.float64)
