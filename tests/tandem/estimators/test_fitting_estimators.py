"""TransferClassifier by default: it runs what fits the numbers of people, and says beforehand who cannot help."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.tree import DecisionTreeClassifier

import tandem
from common.core.errors import BadFit, FitFailed
from referee.audit.audit import audit
from tandem.estimators import CannotHelpWarning, DomainAdapterRegressor, TransferClassifier, fitting
from tandem.estimators.fitting import FewForTeachersWarning, learner_settings, suffice
from tests.tandem.estimators.people import QUICK, SCHEMA, customers, made, square
from tests.tandem.estimators.plain import Plain
from tests.tiers import for_each

LEARNER = {"name": "sgd", "steps": 3000, "noise": 8.0, "diameter": 6.0}
"""Noise enough for all that is asked here, so that no fit waits for a plan of it."""
few_agents = pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")
"""Who cannot judge, which is said and tested above."""


def quick(**changes: Any) -> TransferClassifier:
    given = {"learner": LEARNER, "random_state": 0, "agent_epsilon": 2.0, "epsilon": 4.0} | changes
    return made(TransferClassifier, **given)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "Embedded", Plain)


def scenario(people: int, agents: int, **changes: Any) -> dict[str, Any]:
    model = quick(**changes).fit(*square(people, 1), population=square(agents, 2))
    return dict(model._scenario)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_many_agents_repair_and_judge_fewer_judge_only_and_very_many_tell_a_second_model_apart():
    many, few = scenario(2000, 6000), scenario(2000, 600)
    assert (many["protocol"], many["curator"]["rounds"], "portfolio" in many) == ("portfolio", 1, False)
    assert (few["protocol"], few["curator"]["rounds"], few["portfolio"]["repair"]) == ("portfolio", 1, 0.0)
    assert many["alpha"] == 0.01
    assert scenario(5000, 100_000)["curator"]["rounds"] == 2
    assert scenario(5000, 100_000, rounds=1)["curator"]["rounds"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_what_a_user_names_is_what_is_run():
    """Without the advice it is what every fit was before there was any."""
    named = scenario(2000, 600, protocol="subsample-test-reweigh")
    curator = named["curator"]
    assert (curator["rounds"], curator["kappa"], curator["eta"], named["alpha"]) == (3, 0.3, 0.3, 0.1)
    given = scenario(2000, 600, protocol="portfolio", kappa=0.2, eta=1.0, alpha=0.03, rounds=2)
    curator = given["curator"]
    assert (curator["rounds"], curator["kappa"], curator["eta"], given["alpha"]) == (2, 0.2, 1.0, 0.03)
    assert "portfolio" not in given
    scenario(400, 30, protocol="learn-and-test")  # and nobody is warned


@pytest.mark.usefixtures("plain")
def test_who_cannot_help_is_named_before_anything_is_spent(monkeypatch):
    spent: list[str] = []

    def broken(*arguments: Any) -> None:
        spent.append("the run began")
        raise FitFailed("somebody pulled the plug")

    monkeypatch.setattr("tandem.estimators.base.run", broken)
    model = quick()
    with pytest.warns(CannotHelpWarning, match="30 agents cannot tell less than") as said, pytest.raises(FitFailed):
        model.fit(*square(400, 1), population=square(30, 2))
    assert spent
    assert said[0].filename == __file__
    with pytest.raises(CannotHelpWarning):  # warnings are errors here: nothing of it is reached
        quick().fit(*square(400, 1), population=square(30, 2))
    assert len(spent) == 1
    with pytest.raises(CannotHelpWarning, match="may be noise alone"):
        quick(epsilon=0.01).fit(*square(400, 1), population=square(3000, 2))


@for_each(
    ("changes", "said"),
    [
        ({"protocol": "magic"}, "protocol must be fit, subsample-test-reweigh, portfolio, learn-and-test"),
        ({"mode": "realizable"}, "mode='realizable' is for protocol='subsample-test-reweigh'"),
        ({"protocol": "learn-and-test", "rounds": 2}, "so the curator learns once"),
        ({"alpha": 0.7}, "alpha"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, said, monkeypatch):
    monkeypatch.setattr("tandem.estimators.base.run", lambda *arguments: pytest.fail("the run began"))
    model = quick(**changes)
    with pytest.raises(BadFit, match=said):
        model.fit(*square(2000, 1), population=square(6000, 2))
    assert not hasattr(model, "guarantee_")


@pytest.mark.slow
def test_a_fit_shows_its_candidates_and_the_gap_that_it_is_sure_of(tmp_path):
    """The right half is rare in the sample; the population's labels have other shares."""
    everybody = square(20_000, 2)
    model = quick().fit(*square(2000, 1, rare=0.05), population=everybody)
    assert [judged.name for judged in model.candidates_] == list(model.advice_.candidates)
    assert {judged.name: judged.hypothesis for judged in model.candidates_}["constant +1"] != model.hypothesis_
    assert model.gap_ == model.result_["gap"]
    losses = [
        float(np.mean(judged.hypothesis.predict(everybody[0]) != 2 * everybody[1] - 1)) for judged in model.candidates_
    ]
    assert 1.0 - model.score(*everybody) <= min(losses) + model.gap_
    assert model.estimate_ in [judged.estimate for judged in model.candidates_]
    assert audit(model.save_run(tmp_path / "run"), None, None).status == model.result_["status"]
    assert model.guarantee_.epsilon == 4.0
    again = quick(protocol="learn-and-test").fit(*square(400, 1), population=square(100, 2))
    assert (again.candidates_, again.gap_) == ((), None)


@pytest.mark.usefixtures("plain")
def test_nothing_of_a_record_decides_what_is_run():
    X, y = square(600, 1)
    other, labels = np.array(X), np.array(y)
    other[7], labels[7] = [1e300, -1e300], 1 - labels[7]
    first, second = (
        quick(classes=(0, 1)).fit(*people, population=square(900, 2)) for people in ((X, y), (other, labels))
    )
    assert first._scenario == second._scenario
    assert first.advice_ == second.advice_


TREES = {"name": "model-agnostic", "teacher": DecisionTreeClassifier(max_depth=3), "chunks": 60}


def fit_quick(**changes):
    return made(TransferClassifier, **{"epsilon": 4.0, "rounds": 1, "learner": TREES} | changes)


@few_agents
def test_classifiers_stand_as_they_are():
    """Trees teach; the student is a logistic regression unless another is named."""
    X, y = square(4000, 1)
    model = fit_quick(random_state=0).fit(X, y, public=square(50, 9)[0])
    assert model.score(*square(2000, 2)) > 0.8
    settings = model._scenario["curator"]["learner"]
    assert settings["teacher"] == {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
    assert settings["queries"] == 50


@few_agents
@pytest.mark.slow
def test_a_fit_that_protects_labels_only_says_so_and_takes_real_people_only_if_their_features_are_public():
    labels = TREES | {"protects": "labels", "queries": 40, "chunks": 30}
    X, y = square(1000, 1)
    promised = fit_quick(random_state=0, learner=labels).fit(X, y).guarantee_
    assert promised.protects == promised.curator.protects == "labels"
    assert "the LABEL ONLY, features are not protected" in str(promised)
    assert promised.agent.protects == "records"
    assert "every feature of the curator's people" in promised.assumptions
    with pytest.raises(BadFit, match="public_features: true"):
        fit_quick(learner=labels).fit(X, y)
    assert "LABEL ONLY" in str(fit_quick(learner=labels | {"public_features": True}).fit(X, y).guarantee_)


def test_several_rounds_learn_from_draws_that_suffice_by_labelling_fewer_points():
    assert learner_settings("model-agnostic", 5000, 100, 1)["draws"] is None
    assert learner_settings("model-agnostic", 5000, 100, 3)["draws"] == 500
    # Three rounds of 10,000 people and 500 points: 692 teachers of 1.4 draws each.
    points, each = suffice(500, 31, 1000, 3)
    assert points == 28
    assert each == pytest.approx(6.1, abs=0.1)
    assert suffice(500, 31, 10_000, 3)[0] == 500
    points, each = suffice(500, 31, 1000, 21)
    assert (points, each < 21) == (84, True)
    assert suffice(10, 31, 1000, 21)[0] == 10
    assert suffice(500, 48, 100, 21)[0] == 3  # no more than leaves each teacher a draw


@few_agents
@pytest.mark.slow
def test_by_default_each_teacher_has_two_records_a_weight_or_a_word_is_said():
    X, y = square(12_000, 1)
    public = np.random.default_rng(3).uniform(-1, 1, (500, X.shape[1]))
    votes = {"learner": "model-agnostic", "protocol": "subsample-test-reweigh", "random_state": 0}
    model = made(TransferClassifier, epsilon=2.0, rounds=2, **votes)
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


@few_agents
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
    model = fit_quick(**changes)
    with pytest.raises(BadFit, match=said):
        model.fit(X, y, public=np.copy(X[:20]) if public else None)
    assert not hasattr(model, "guarantee_")


UNPLANNED = {"name": "sgd", "steps": 3000, "noise": 8.0}
"""Its noise is given: planning it takes longer than all else here."""


@few_agents
@pytest.mark.usefixtures("plain")
@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
def test_a_classifier_s_model_predicts_as_it_does(tmp_path):
    fitted = fit_quick(learner=UNPLANNED, epsilon=500.0, delta=1e-3, random_state=0, schema=SCHEMA)
    fitted.fit(customers(300, 1), population=customers(200, 2))
    fresh = customers(80, 3)
    model = fitted.to_model()
    assert model.columns == ("visits", "months", "plan")
    assert model.classes == ("no", "yes")
    assert model.loss == "logistic"
    np.testing.assert_array_equal(tandem.predict(model, fresh), fitted.predict(fresh))
    exported = tandem.load_model(tandem.export(model, tmp_path / "model.json"))
    assert exported == model
    np.testing.assert_array_equal(tandem.as_sklearn(exported).predict(fresh), fitted.predict(fresh))
    assert tandem.describe(model)[0] == "predicts renews: no or yes"


@few_agents
@pytest.mark.usefixtures("plain")
@pytest.mark.slow
def test_columns_without_names_are_x0_x1_and_classes_become_texts():
    X, y = square(300, 1)
    fitted = fit_quick(learner=QUICK, random_state=0).fit(X, y)
    rows = [{"x0": float(a), "x1": float(b)} for a, b in X[:20]]
    assert tandem.predict(fitted.to_model(), rows).tolist() == [str(label) for label in fitted.predict(X[:20])]


@few_agents
@pytest.mark.usefixtures("plain")
def test_a_regressor_s_model_predicts_in_the_unit_of_its_response():
    X, _ = square(300, 1)
    y = 20.0 + 4.0 * X[:, 0]
    fitted = made(DomainAdapterRegressor, response_bounds=(10.0, 30.0), random_state=0).fit(X, y, public=(X, y))
    model = fitted.to_model()
    rows = [{"x0": float(a), "x1": float(b)} for a, b in X[:20]]
    np.testing.assert_allclose(tandem.predict(model, rows), fitted.predict(X[:20]), rtol=1e-6)
    np.testing.assert_allclose(tandem.as_sklearn(model).predict(rows), y[:20], rtol=1e-3)
    assert any(line.startswith("  x0, a unit") and "+4 " in line for line in tandem.describe(model))
