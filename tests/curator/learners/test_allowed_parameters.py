"""What classifiers may be given: nothing by which a fit could tell of its records beside its model."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from common.core.errors import BadInput
from common.learners.base import parse_settings
from common.learners.scikit import ALLOWED, SEVERAL
from curator.learners.base import parse_learner
from curator.learners.scikit import classifiers
from tests.tiers import for_each

TELLING = ("verbose", "n_jobs", "warm_start", "copy_X", "copy_X_train", "store_covariance", "store_cv_results")
ALSO_REFUSED = {"cache_size", "covariance_estimator", "interaction_cst", "kernel", "metric_params", "monotonic_cst"}
"""Beside these: memory of any size, and what takes objects of scikit-learn or tables."""
TREE = {"classifier": "DecisionTreeClassifier"}
OPEN = sorted((name, what) for name, kind in classifiers().items() for what in inspect.signature(kind).parameters)
LOUD = [(name, what) for name, what in OPEN if what in TELLING and name not in SEVERAL]


def test_every_classifier_has_a_list_and_every_name_on_it_is_one_of_its_own() -> None:
    assert set(ALLOWED) == set(classifiers()) - set(SEVERAL)
    for name, allowed in ALLOWED.items():
        own = set(inspect.signature(classifiers()[name]).parameters)
        assert allowed <= own, name
        assert not allowed & set(TELLING)
        assert own - allowed <= {*TELLING, *ALSO_REFUSED}, name


@for_each(("name", "what"), LOUD)
def test_what_tells_of_records_is_refused_with_its_name_and_what_is_allowed(name: str, what: str) -> None:
    loud = {"classifier": name, "parameters": {what: 1}}
    one = next(iter(sorted(ALLOWED[name])))
    for settings in (
        {"name": "scikit", "draws": 100, **loud},
        {
            "name": "model-agnostic",
            "chunks": 20,
            "teacher": loud,
            "student": TREE,
            "aggregation": {"name": "gnmax", "noise": 4.0},
            "queries": 10,
        },
        {
            "name": "scikit",
            "draws": 100,
            "classifier": "VotingClassifier",
            "parameters": {"estimators": [TREE, loud]},
        },
    ):
        for read in (parse_learner, parse_settings):  # by the curator, and by everybody else
            with pytest.raises(BadInput, match=rf"{name} may not be given '{what}'; allowed: .*\b{one}\b"):
                read(settings)


@for_each("value", [{"classifier": "print"}, {"__class__": "x"}, [[1]], ["print"]])
def test_arguments_are_data(value: Any) -> None:
    with pytest.raises(BadInput):
        parse_learner(
            {"name": "scikit", "draws": 100, "classifier": "BaggingClassifier", "parameters": {"estimator": value}}
        )
