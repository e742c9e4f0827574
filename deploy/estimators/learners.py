"""A learner's settings from what a user gives: a name, or a mapping that may hold scikit-learn's own objects."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

STEPS_A_PERSON = 100
LEAST_STEPS, MOST_STEPS = 10_000, 2_000_000
DIAMETER = 30.0


def learner_settings(learner: str | Mapping[str, Any], people: int, public: int) -> dict[str, Any]:
    """Return a learner's settings; what is not given follows from its name and from the numbers of people alone.

    ``sgd`` takes 100 steps a person (10,000 to 2,000,000 in all) with the least noise that the budget allows, and
    half-spaces whose weights, with the intercept, have length at most 15. ``model-agnostic`` labels all public points.

    Parameters
    ----------
    learner
        A name, or a mapping with ``name`` and settings, in which scikit-learn's classifiers may stand as they are.
    people, public
        How many people the curator has, and how many public points there are.
    """
    given = {"name": learner} if isinstance(learner, str) else {key: _plain(value) for key, value in learner.items()}
    if given.get("name") == "sgd":
        steps = min(MOST_STEPS, max(LEAST_STEPS, STEPS_A_PERSON * people))
        return {"steps": steps, "noise": "plan", "diameter": DIAMETER, **given}
    if given.get("name") == "model-agnostic" and public:
        return {"queries": public, **given}
    return given


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
