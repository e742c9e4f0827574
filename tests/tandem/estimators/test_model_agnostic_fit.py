"""TransferClassifier with any classifier as a black box, taught by votes on public points."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.tree import DecisionTreeClassifier

from common.core.errors import BadFit
from tandem.estimators import TransferClassifier
from tandem.estimators.fitting import FewForTeachersWarning, learner_settings, suffice
from tests.tandem.estimators.people import square
from tests.tiers import for_each

# Most fits here have few agents, who cannot judge: that is said, and tested in test_fitting_estimators.
pytestmark = pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")

TREES = {"name": "model-agnostic", "teacher": DecisionTreeClassifier(max_depth=3), "chunks": 60}


def quick(**changes):
    return TransferClassifier(**{"epsilon": 4.0, "rounds": 1, "learner": TREES} | changes)


def test_classifiers_stand_as_they_are():
    """Trees teach; the student is a logistic regression unless another is named."""
    X, y = square(4000, 1)
    model = quick(random_state=0).fit(X, y, public=square(50, 9)[0])
    assert model.score(*square(2000, 2)) > 0.8
    settings = model._scenario["curator"]["learner"]
    assert settings["teacher"] == {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
    assert settings["queries"] == 50


@pytest.mark.slow
def test_a_fit_that_protects_labels_only_says_so_and_takes_real_people_only_if_their_features_are_public():
    labels = TREES | {"protects": "labels", "queries": 40, "chunks": 30}
    X, y = square(1000, 1)
    promised = quick(random_state=0, learner=labels).fit(X, y).guarantee_
    assert promised.protects == promised.curator.protects == "labels"
    assert "the LABEL ONLY, features are not protected" in str(promised)
    assert promised.agent.protects == "records"
    assert "every feature of the curator's people" in promised.assumptions
    with pytest.raises(BadFit, match="public_features: true"):
        quick(learner=labels).fit(X, y)
    assert "LABEL ONLY" in str(quick(learner=labels | {"public_features": True}).fit(X, y).guarantee_)


def test_several_rounds_learn_from_draws():
    assert learner_settings("model-agnostic", 5000, 100, 1)["draws"] is None
    assert learner_settings("model-agnostic", 5000, 100, 3)["draws"] == 500


def test_teachers_get_draws_that_suffice_by_labelling_fewer_points():
    # Three rounds of 10,000 people and 500 points: 692 teachers of 1.4 draws each.
    points, each = suffice(500, 31, 1000, 3)
    assert points == 28
    assert each == pytest.approx(6.1, abs=0.1)
    assert suffice(500, 31, 10_000, 3)[0] == 500
    points, each = suffice(500, 31, 1000, 21)
    assert (points, each < 21) == (84, True)
    assert suffice(10, 31, 1000, 21)[0] == 10
    assert suffice(500, 48, 100, 21)[0] == 3  # no more than leaves each teacher a draw


@pytest.mark.slow
def test_by_default_each_teacher_has_two_records_a_weight_or_a_word_is_said():
    X, y = square(12_000, 1)
    public = np.random.default_rng(3).uniform(-1, 1, (500, X.shape[1]))
    votes = {"learner": "model-agnostic", "protocol": "subsample-test-reweigh", "random_state": 0}
    model = TransferClassifier(epsilon=2.0, rounds=2, **votes)
    model.fit(X, y, public=public)
    settings = model._scenario["curator"]["learner"]
    assert settings["queries"] < 500
    assert settings["draws"] / settings["chunks"] >= 1.8 * (X.shape[1] + 1)
    with pytest.warns(FewForTeachersWarning, match="records for 3 weights"):
        TransferClassifier(epsilon=0.5, **votes).fit(X[:2000], y[:2000], public=public)
    # What fits is judged, and counts nothing: the votes have the whole budget.
    fitted = TransferClassifier(epsilon=2.0, **votes | {"protocol": "fit"}).fit(X, y, public=public)
    assert fitted._scenario["portfolio"]["repair"] == 0.0
    assert [judged.name for judged in fitted.candidates_] == ["constant -1", "constant +1", "model"]


@for_each(
    ("changes", "public", "said"),
    [
        ({}, False, "give fit"),
        ({"learner": TREES | {"chunks": 500}}, True, "500 chunks are more than the 150 records"),
        ({"learner": TREES | {"student": GaussianProcessClassifier()}}, True, "agents do not accept"),
        ({"learner": TREES | {"teacher": {"classifier": "Oracle"}}}, True, "no such classifier"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_touched(changes, public, said, monkeypatch):
    monkeypatch.setattr("tandem.estimators.base.run", lambda *arguments: pytest.fail("the run began"))
    X, y = square(300, 1)
    model = quick(**changes)
    with pytest.raises(BadFit, match=said):
        model.fit(X, y, public=np.copy(X[:20]) if public else None)
    assert not hasattr(model, "guarantee_")
