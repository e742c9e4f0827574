"""TransferClassifier with more than two classes: learned from some people, taught by others, and used by name."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone

import tandem
from common.core.errors import BadFit
from referee.audit.audit import audit
from tandem.estimators import DomainAdapter, TransferClassifier
from tests.tandem.estimators.people import check_refused, made
from tests.tiers import for_each

NAMES = np.array(["ash", "beech", "oak"])
CENTRES = np.array([[0.5, 0.0], [-0.4, 0.4], [-0.4, -0.5]])


def people(count: int, shares: tuple[float, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    own = rng.choice(3, size=count, p=shares)
    return np.clip(CENTRES[own] + 0.3 * rng.normal(size=(count, 2)), -1, 1), NAMES[own]


@pytest.fixture(scope="module")
def fitted() -> TransferClassifier:
    model = TransferClassifier(epsilon=2.0, agent_epsilon=3.0, random_state=0)
    return model.fit(*people(3000, (0.8, 0.1, 0.1), 1), population=people(8000, (0.2, 0.4, 0.4), 2))


def test_predictions_come_as_frames_where_that_is_asked_for(fitted):
    X, y = people(50, (0.2, 0.4, 0.4), 3)
    frame = pandas.DataFrame(X, index=[f"p{at}" for at in range(50)])
    arrays = fitted.predict(X), fitted.predict_proba(X), fitted.decision_function(X), fitted.score(X, y)
    asked = clone(fitted.set_output(transform="pandas"))
    try:
        label, odds, scores = (of(frame) for of in (fitted.predict, fitted.predict_proba, fitted.decision_function))
        assert [type(of) for of in (label, odds, scores)] == [pandas.Series, pandas.DataFrame, pandas.DataFrame]
        for found, plain in zip((label, odds, scores), arrays, strict=False):
            assert list(found.index) == list(frame.index)
            np.testing.assert_array_equal(found.to_numpy(), plain)
        assert list(odds.columns) == list(scores.columns) == list(fitted.classes_)
        assert fitted.score(frame, y) == arrays[-1]
        fitted.set_output(transform="polars").set_output()
        assert fitted.predict(X).to_list() == list(arrays[0])
        assert fitted.predict_proba(X).columns == [str(name) for name in fitted.classes_]
        with pytest.raises(ValueError, match="transform must be 'default'"):
            fitted.set_output(transform="numpy")
    finally:
        fitted.set_output(transform="default")
    assert vars(asked)["_output"] == "pandas"  # a clone has what was asked for


def test_it_predicts_names_and_probabilities_and_says_what_it_is_worth(fitted):
    X, y = people(3000, (0.2, 0.4, 0.4), 3)
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.score(X, y) > 0.85
    assert fitted.estimate_.low <= 1.0 - fitted.score(X, y) + 0.02
    chances = fitted.predict_proba(X)
    assert chances.shape == fitted.decision_function(X).shape == (3000, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert chances[np.arange(3000), np.searchsorted(NAMES, y)].mean() > 0.75
    assert "curator's model alone errs on" in fitted.verdict_.text


def test_a_saved_run_is_audited_and_its_model_is_used_by_name(fitted, tmp_path):
    assert audit(fitted.save_run(tmp_path / "run")).status == fitted.result_["status"]
    X, _ = people(20, (0.2, 0.4, 0.4), 4)
    rows = [{"x0": a, "x1": b} for a, b in X.tolist()]
    model = tandem.load_model(tandem.export(fitted.to_model(), tmp_path / "model.json"))
    assert tandem.predict(model, rows).tolist() == fitted.predict(X).tolist()
    np.testing.assert_allclose(tandem.predict_proba(model, rows), fitted.predict_proba(X), rtol=1e-5)
    np.testing.assert_allclose(tandem.as_sklearn(model).predict_proba(rows), fitted.predict_proba(X), rtol=1e-5)
    assert "score of beech:" in tandem.describe(model)


@for_each(
    ("change", "words"),
    [
        ({"protocol": "subsample-test-reweigh"}, "Only binary classification is supported.*multiclass"),
        ({"learner": "sgd"}, "Only binary classification is supported.*learner='discriminant'"),
        ({"costs": {"miss": 2.0, "false_alarm": 1.0}}, "costs are for two classes only"),
        ({"norm": 1.0}, "a norm, which would shorten the columns of the classes"),
        ({"classes": ("ash", "beech", "elm")}, "of 1000 people have none of the 3 classes.*options="),
        ({"classes": tuple(range(11))}, "classes must be two different values, or up to 10"),
    ],
)
def test_what_is_of_two_classes_only_is_refused_and_nothing_is_spent(change, words):
    check_refused(made(TransferClassifier, random_state=0, **change), words, *people(1000, (0.4, 0.3, 0.3), 1))


def test_a_population_with_a_class_that_the_curator_s_people_do_not_have_is_refused_unless_it_is_declared():
    X, y = people(2000, (0.5, 0.5, 0.0), 1)
    others = people(4000, (0.3, 0.3, 0.4), 2)
    says = "people have none of the two classes: leave them out, or declare others"
    says += r": options=\{'classes': \[\.\.\.\]\}"
    check_refused(made(TransferClassifier, random_state=0), says, X, y, population=others)
    declared = made(TransferClassifier, random_state=0, classes=tuple(NAMES)).fit(X, y, population=others)
    assert declared.classes_.tolist() == NAMES.tolist()


def test_more_than_ten_classes_are_too_many_and_adaptation_takes_two():
    X = np.random.default_rng(1).uniform(-1, 1, (600, 2))
    with pytest.raises(BadFit, match="y has 12 classes, at most 10"):
        made(TransferClassifier, random_state=0).fit(X, np.arange(600) % 12)
    with pytest.raises(BadFit, match="Only binary classification is supported"):
        made(DomainAdapter, random_state=0).fit(X, np.arange(600) % 3, public=(X, np.arange(600) % 3))
