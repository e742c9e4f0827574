"""A learner's settings from what a user gives: a name, or a mapping that may hold scikit-learn's own objects."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from common.core.errors import BadFit
from common.local.hypotheses.hypothesis import ordinary_kinds
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.planning.fitting import steps
from curator.learners.base import Learner
from curator.learners.model_agnostic import ModelAgnostic

DIAMETER = 30.0
RECORDS_A_WEIGHT = 2
"""Records, or draws, that a teacher is to have for each weight of a half-space."""
POINTS_A_WEIGHT = 4
"""Labelled points that a student has at least for each weight of a half-space, if there are so many."""
_TRIAL = 200
"""Records of nobody on which a student is tried."""


def learner_settings(
    learner: str | Mapping[str, Any], people: int, public: int, rounds: int, diameter: float = DIAMETER
) -> dict[str, Any]:
    """Return a learner's settings; what is not given follows from its name and from public numbers alone.

    ``sgd`` takes 100 steps a person (10,000 to 2,000,000 in all) with the least noise that the budget allows, and
    half-spaces whose weights, with the intercept, have length at most ``diameter``/2. ``model-agnostic`` labels all
    public points by the noisy votes of as many logistic regressions as the noise wants: taught by everybody in a single
    round, by a tenth as many draws in each of several rounds. (How many points are labelled, :func:`suffice` says.)

    Parameters
    ----------
    learner
        A name, or a mapping with ``name`` and settings, in which scikit-learn's classifiers may stand as they are.
    people, public
        How many people the curator has, and how many public points there are.
    rounds
        How often it learns.
    diameter
        Of the ball of half-spaces.
    """
    given = {"name": learner} if isinstance(learner, str) else {key: _plain(value) for key, value in learner.items()}
    if given.get("name") == "sgd":
        return {"steps": steps(people), "noise": "plan", "diameter": diameter, **given}
    if given.get("name") == "model-agnostic":
        again = rounds > 1
        aggregation = {"name": "gnmax", **({"epsilon": "plan", "delta": "plan"} if again else {"noise": "plan"})}
        regression = {"classifier": "LogisticRegression", "parameters": {"C": 100.0}}
        models = {"teacher": regression, "student": regression}
        votes = {"queries": max(1, public), "chunks": "plan", "aggregation": aggregation}
        return {"draws": max(2, people // 10) if again else None, **models, **votes, **given}
    return given


class FewForTeachersWarning(UserWarning):
    """Teachers have fewer records than a half-space has weights: their votes say little."""


def leaves_votes_open(learner: str | Mapping[str, Any]) -> bool:
    """Tell whether it is model-agnostic, and neither teachers, nor their draws, nor questions are given."""
    given = {"name": learner} if isinstance(learner, str) else learner
    return given.get("name") == "model-agnostic" and not {"queries", "chunks", "draws", "aggregation"} & set(given)


def suffice(queries: int, single: int, taught: int, weights: int) -> tuple[int, float]:
    """Return how many points are labelled, so that each teacher has records enough, and how many it then has.

    The noise of GNMax grows with the square root of the number of answers, and the number of teachers with the noise.
    So a quarter of the points means half of the teachers, with twice the records each. A teacher with fewer records
    than weights votes by chance, and no number of such teachers is right.

    Parameters
    ----------
    queries
        Public points.
    single
        Teachers that one answer takes.
    taught
        Records, or draws, that teach.
    weights
        Of a half-space, d + 1.
    """
    enough = (taught / (single * RECORDS_A_WEIGHT * weights)) ** 2
    fewer = min(queries, max(POINTS_A_WEIGHT * weights, math.floor(enough)))
    fewer = max(1, min(fewer, math.floor(0.9 * (taught / single) ** 2)))  # a teacher has one record at least
    return fewer, taught / (single * math.sqrt(fewer))


def check_public(settings: Mapping[str, Any], public: int) -> None:
    """Refuse a learner that labels public points where there are none.

    Raises
    ------
    BadFit
        Saying what to give.
    """
    if settings.get("name") == "model-agnostic" and settings.get("protects", "records") == "records" and not public:
        raise BadFit("learner model-agnostic labels public points, and there are none: give fit(..., public=X)")


def check_model(learner: Learner, dimension: int) -> None:
    """Refuse a student whose model real people's agents would not read: they accept no graphs.

    Parameters
    ----------
    learner
        As the curator has it.
    dimension
        Number of features.

    Raises
    ------
    BadFit
        Naming the kind of the model.
    """
    if not isinstance(learner, ModelAgnostic):
        return
    source = RandomSource.seeded(0, "nobody")
    features = source.derive("features").uniforms(_TRIAL * dimension).reshape(_TRIAL, dimension).astype(np.float32)
    labels = (2 * source.derive("labels").integers(2, _TRIAL) - 1).astype(np.int8)
    model = learner.student.written(Records(features, labels), source)
    if model.kind not in ordinary_kinds():
        raise BadFit(
            f"the student's model would be of kind {model.kind!r}, which real people's agents do not accept: take one "
            "whose model is a half-space or trees"
        )


def _plain(value: Any) -> Any:
    """Return a setting as a scenario has it: classifiers by their names and the parameters that differ from default."""
    if isinstance(value, BaseEstimator):
        defaults = inspect.signature(type(value)).parameters
        given = value.get_params(deep=False).items()
        changed = {name: _plain(found) for name, found in given if found is not defaults[name].default}
        return {"classifier": type(value).__name__, "parameters": changed}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
