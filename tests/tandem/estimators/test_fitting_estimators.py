"""TransferClassifier by default: it runs what fits the numbers of people, and says beforehand who cannot help."""

import warnings
from typing import Any

import numpy as np
import polars
import pytest
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import tandem
from common.core.errors import BadFit, FitFailed
from referee.audit.audit import audit
from tandem.estimators import (
    CannotHelpWarning,
    DomainAdapter,
    DomainAdapterRegressor,
    PublicClippingWarning,
    TransferClassifier,
    TransferRegressor,
    fitting,
)
from tandem.estimators.fitting import FewForTeachersWarning, learner_settings, learner_tree, points_to_label
from tandem.estimators.frames import finite_range, public_pairs, response_cost
from tests.tandem.estimators.people import QUICK, SCHEMA, Plain, check_refused, customers, made, square
from tests.tiers import for_each, thinned

LEARNER = {"name": "sgd", "steps": 3000, "noise": 8.0, "diameter": 6.0}
"""Noise enough for all that is asked here, so that no fit waits for a plan of it."""
few_agents = pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")
"""Who cannot judge, which is said and tested above."""


beyond_bounds = pytest.mark.filterwarnings("ignore::tandem.estimators.frames.PublicClippingWarning")


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
def test_agents_teach_and_judge_whatever_their_number_and_alpha_can_be_reached():
    many, few = scenario(2000, 6000), scenario(2000, 600)
    for found in (many, few):
        assert (found["protocol"], found["curator"]["rounds"], "portfolio" in found) == ("portfolio", 1, False)
    assert 0.01 < many["alpha"] < few["alpha"] <= 0.49


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_what_a_user_names_is_what_is_run():
    """Without the advice it is what every fit was before there was any."""
    for given, expected in (
        ({"protocol": "subsample-test-reweigh"}, (3, 0.3, 0.3, 0.1)),
        ({"protocol": "portfolio", "kappa": 0.2, "eta": 1.0, "alpha": 0.03}, (1, 0.2, 1.0, 0.03)),
    ):
        named = scenario(2000, 600, **given)
        curator = named["curator"]
        assert (curator["rounds"], curator["kappa"], curator["eta"], named["alpha"]) == expected
        assert "portfolio" not in named
    scenario(400, 30, protocol="learn-and-test")  # and nobody is warned


@pytest.mark.usefixtures("plain")
def test_who_cannot_help_is_named_before_anything_is_spent(monkeypatch):
    def broken(*arguments: Any) -> None:
        raise FitFailed("somebody pulled the plug")

    monkeypatch.setattr("tandem.estimators.base.run", broken)
    vague = pytest.warns(CannotHelpWarning, match="may tell no more than the share of the label")
    few = pytest.warns(CannotHelpWarning, match="30 agents cannot tell less than")
    with vague, few as said, pytest.raises(FitFailed):
        quick().fit(*square(400, 1), population=square(30, 2))
    assert said[0].filename == __file__
    with pytest.raises(CannotHelpWarning):  # warnings are errors here: the run, which fails otherwise, is not reached
        quick().fit(*square(400, 1), population=square(30, 2))
    with pytest.raises(CannotHelpWarning, match="may be noise alone"):
        quick(epsilon=0.01).fit(*square(400, 1), population=square(3000, 2))
    with pytest.raises(CannotHelpWarning, match="may tell no more than the share of the label"):
        quick(epsilon=0.02, learner=None).fit(*square(400, 1), population=square(300, 2))


@for_each(
    ("changes", "said"),
    [
        ({"protocol": "magic"}, "protocol must be fit, subsample-test-reweigh, portfolio, learn-and-test"),
        ({"mode": "realizable"}, "mode='realizable' is for protocol='subsample-test-reweigh'"),
        ({"protocol": "learn-and-test", "rounds": 2}, "the curator learns once"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, said):
    check_refused(quick(**changes), said, *square(2000, 1), population=square(6000, 2))


@pytest.mark.slow
def test_a_fit_shows_its_candidates_and_the_gap_that_it_is_sure_of(tmp_path):
    """The right half is rare in the sample; the population's labels have other shares."""
    everybody = X, y = square(20_000, 2)
    model = quick().fit(*square(2000, 1, rare=0.05), population=everybody)
    assert [judged.name for judged in model.candidates_][:1] == ["model, recalibrated"]
    assert model.gap_ == model.result_["gap"]
    losses = [float(np.mean(judged.hypothesis.predict(X) != 2 * y - 1)) for judged in model.candidates_]
    assert 1.0 - model.score(*everybody) <= min(losses) + model.gap_
    assert model.estimate_ in [judged.estimate for judged in model.candidates_]
    assert audit(model.save_run(tmp_path / "run"), None, None).status == model.result_["status"]
    assert model.guarantee_.epsilon == 4.0
    again = quick(protocol="learn-and-test").fit(*square(400, 1), population=square(100, 2))
    assert (again.candidates_, again.gap_) == ((), None)
    chances = model.predict_proba(X)
    assert np.abs(chances.sum(axis=1) - 1.0).max() < 1e-12
    rate = y.mean()
    of_rate = -rate * np.log(rate) - (1.0 - rate) * np.log(1.0 - rate)
    assert -np.log(chances[np.arange(len(y)), y]).mean() < 0.6 * of_rate
    assert ((model.decision_function(X) > 0) == (model.predict(X) == 1)).all()
    assert not hasattr(again, "predict_proba")
    with pytest.raises(AttributeError, match="no agents calibrated the model's score"):
        again.predict_proba(X)
    assert again.decision_function(X).shape == (len(X),)


@pytest.mark.usefixtures("plain")
def test_nothing_of_a_record_decides_what_is_run():
    people, other = square(600, 1), square(600, 1)
    other[0][7], other[1][7] = [1e300, -1e300], 1 - other[1][7]
    first, second = (quick(classes=(0, 1)).fit(*given, population=square(900, 2)) for given in (people, other))
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
    tree = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
    assert (settings["teacher"], settings["queries"]) == (tree, 50)


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
    assert [learner_settings(learner_tree("model-agnostic"), 5000, 100, rounds)["draws"] for rounds in (1, 3)] == [
        None,
        500,
    ]
    # Three rounds of 10,000 people and 500 points: 692 teachers of 1.4 draws each.
    for given, points in (
        ((500, 31, 1000, 3), 28),
        ((500, 31, 10_000, 3), 500),
        ((500, 31, 1000, 21), 84),
        ((10, 31, 1000, 21), 10),
        ((500, 48, 100, 21), 3),  # no more than leaves each teacher a draw
    ):
        assert points_to_label(*given)[0] == points
    assert points_to_label(500, 31, 1000, 3)[1] == pytest.approx(6.1, abs=0.1)


@few_agents
@pytest.mark.slow
def test_by_default_each_teacher_has_two_records_a_weight_or_a_word_is_said():
    X, y = square(12_000, 1)
    public = np.random.default_rng(3).uniform(-1, 1, (500, X.shape[1]))
    votes = {"learner": "model-agnostic", "protocol": "subsample-test-reweigh", "random_state": 0}
    model = made(TransferClassifier, epsilon=2.0, rounds=2, **votes).fit(X, y, public=public)
    settings = model._scenario["curator"]["learner"]
    assert settings["queries"] < 500
    assert settings["draws"] / settings["chunks"] >= 1.8 * (X.shape[1] + 1)
    with pytest.warns(FewForTeachersWarning, match="records for 3 weights"):
        TransferClassifier(epsilon=0.5, **votes).fit(X[:2000], y[:2000], public=public)
    # What fits is judged, and counts nothing: the votes have the whole budget.
    fitted = TransferClassifier(epsilon=2.0, **votes | {"protocol": "fit"}).fit(X, y, public=public)
    assert fitted._scenario["portfolio"]["teach"] == 0.0
    assert fitted.candidates_[0].name == "model"


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
def test_what_cannot_work_is_refused_before_anything_is_touched(changes, public, said):
    X, y = square(300, 1)
    check_refused(fit_quick(**changes), said, X, y, public=np.copy(X[:20]) if public else None)


@few_agents
@pytest.mark.usefixtures("plain")
@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
def test_a_classifier_s_model_predicts_as_it_does(tmp_path):
    fitted = fit_quick(learner=QUICK | {"noise": 8.0}, epsilon=500.0, delta=1e-3, random_state=0, schema=SCHEMA)
    fitted.fit(customers(300, 1), population=customers(200, 2))
    fresh = customers(80, 3)
    model = fitted.to_model()
    assert (model.columns, model.classes, model.loss) == (("visits", "months", "plan"), ("no", "yes"), "logistic")
    np.testing.assert_array_equal(tandem.predict(model, fresh), fitted.predict(fresh))
    exported = tandem.load_model(tandem.export(model, tmp_path / "model.json"))
    assert exported == model
    np.testing.assert_array_equal(tandem.as_sklearn(exported).predict(fresh), fitted.predict(fresh))
    assert tandem.describe(model)[0] == "predicts renews: no or yes"


def rows_of(X: np.ndarray) -> list[dict[str, float]]:
    return [{"x0": a, "x1": b} for a, b in X[:20].tolist()]


@few_agents
@pytest.mark.usefixtures("plain")
@pytest.mark.slow
def test_columns_without_names_are_x0_x1_and_classes_become_texts():
    X, y = square(300, 1)
    fitted = fit_quick(learner=QUICK, random_state=0).fit(X, y)
    assert tandem.predict(fitted.to_model(), rows_of(X)).tolist() == [str(label) for label in fitted.predict(X[:20])]


@few_agents
@pytest.mark.usefixtures("plain")
def test_a_regressor_s_model_predicts_in_the_unit_of_its_response():
    X, _ = square(300, 1)
    y = 20.0 + 4.0 * X[:, 0]
    fitted = made(DomainAdapterRegressor, response_bounds=(10.0, 30.0), random_state=0).fit(X, y, public=(X, y))
    model, rows = fitted.to_model(), rows_of(X)
    np.testing.assert_allclose(tandem.predict(model, rows), fitted.predict(X[:20]), rtol=1e-6)
    np.testing.assert_allclose(tandem.as_sklearn(model).predict(rows), y[:20], rtol=1e-3)
    assert any(line.startswith("  x0, a unit") and "+4 " in line for line in tandem.describe(model))


# Public numbers that suit the checks' data: tens of people, within 4 standard deviations.
ADAPTED = {"population_fraction": 0.1, "iterations": 200}
GENEROUS = {"epsilon": 500.0, "delta": 1e-3, "agent_epsilon": 20.0, "bounds": (-4.0, 4.0)}


class Adapting(DomainAdapter):
    """The checks know of no public sample: they give the same people as one."""

    def fit(self, X, y=None):  # type: ignore[override]
        return super().fit(X, y, public=(X, y))


class AdaptingRegressor(DomainAdapterRegressor):
    def fit(self, X, y=None):  # type: ignore[override]
        return super().fit(X, y, public=(X, y))


ESTIMATORS = [
    # Nearly all are the curator's: it wants more than ten. The noise is enough for any of the checks' data, so that no
    # check waits for a plan of it.
    made(TransferClassifier, **GENEROUS, population_fraction=0.06, kappa=1.0, rounds=1, learner=QUICK | {"noise": 8.0}),
    made(TransferRegressor, **GENEROUS, population_fraction=0.1, response_bounds=(-4.0, 4.0)),
    made(Adapting, **GENEROUS, **ADAPTED),
    made(AdaptingRegressor, **GENEROUS, **ADAPTED, response_bounds=(-4.0, 4.0), norm=0.8, radius=2.0),
]


# Some checks fit data around 100, beyond the declared bounds of (-4, 4): the adapters say so. Few of them are agents.
@few_agents
@beyond_bounds
@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_is_content(estimator, check, monkeypatch):
    monkeypatch.setattr(fitting, "Embedded", Plain)
    check(estimator)


@few_agents
@beyond_bounds
@for_each("check", thinned(["check_estimators_pickle", "check_fit_idempotent", "check_{kind}s_train"], 1))
@for_each("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_it_is_content_with_the_parties_themselves(estimator: Any, check: str) -> None:
    kind = "classifier" if is_classifier(estimator) else "regressor"
    asked = clone(estimator).set_params(**{"learner": QUICK} if isinstance(estimator, TransferClassifier) else {})
    getattr(estimator_checks, check.format(kind=kind))(type(estimator).__name__, asked)


@few_agents
@pytest.mark.thorough
def test_it_is_content_with_several_classes_and_the_parties_themselves():
    """With a seed: some checks fit the same people twice, which the ledger of real people refuses."""
    estimator = made(TransferClassifier, **GENEROUS, population_fraction=0.06, kappa=1.0, random_state=0)
    assert estimator.__sklearn_tags__().classifier_tags.multi_class
    estimator_checks.check_estimator(estimator, on_skip=None)


@few_agents
@for_each("name", ["discriminant", "full-batch"])
def test_a_learner_may_be_named_without_its_settings(name):
    X, y = square(300, 1)
    model = made(TransferClassifier, learner=name, epsilon=20.0, random_state=0).fit(X, y)
    assert model._scenario["curator"]["learner"]["name"] == name


RAW = {"iterations": 100, "epsilon": 4.0, "agent_epsilon": 4.0, "random_state": 0}


def far(count, seed, shift=0.0):
    """People in units of their own: features in the thousands, and responses around 500 with a deviation of 20."""
    draw = np.random.default_rng(seed)
    X = 5000.0 + 1000.0 * draw.normal(size=(count, 3)) + 300.0 * shift
    return X, 500.0 + (X - 5000.0) @ np.array([0.012, -0.008, 0.012]) + 5.0 * draw.normal(size=count)


def test_a_regressor_that_is_far_off_does_not_report_an_error_of_0_without_a_word():
    public, mine, others = far(1000, 1), far(500, 2, 1.0), far(500, 3, 1.0)
    model = made(DomainAdapterRegressor, bounds=(0, 10_000), response_bounds=(-1, 1), **RAW)
    with pytest.warns(
        PublicClippingWarning, match=r"100.0% of the public sample's responses .* estimate_ is the error"
    ):
        model.fit(*mine, public=public, population=others)
    assert model.public_clipped_["response"] == 1.0
    assert np.mean((model.predict(others[0]) - others[1]) ** 2) > 400.0**2 > 100 * model.estimate_.value


def test_by_default_bounds_are_the_public_samples_and_raw_units_do():
    public, mine, others = far(2000, 1), far(1000, 2, 1.0), far(1000, 3, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = made(DomainAdapterRegressor, **RAW).fit(*mine, public=public, population=others)
    error = float(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert error < 2.0 * 25.0
    assert model.estimate_.low <= error <= model.estimate_.high
    assert model.public_clipped_ == {}
    learner = model._scenario["curator"]["learner"]
    assert (learner["residual_clip"], learner["start"], learner["whitening"]) == ("public", "public", "public")
    signs = [(X, np.where(y > 500, "up", "down")) for X, y in (public, mine, others)]
    labels = made(DomainAdapter, **RAW).fit(*signs[1], public=signs[0], population=signs[2])
    assert labels.score(*signs[2]) > 0.9


def test_bounds_take_nothing_from_the_private_people():
    public, mine, wild = far(300, 1), far(300, 2), far(300, 2)
    wild[0][0], wild[1][0] = 1e9, -1e9
    learned = []
    for people in (mine, wild):
        model = made(DomainAdapterRegressor, **RAW).fit(*people, public=public, population=far(100, 3))
        learned.append((model._schema, model._range, model._scenario["curator"]))
    assert learned[0] == learned[1]
    assert learned[0][1] == (public[1].min(), public[1].max())


def test_features_of_the_public_sample_beyond_declared_bounds_are_told():
    public, mine = far(400, 1), far(400, 2)
    signs = [(X, y > 500) for X, y in (public, mine)]
    with pytest.warns(PublicClippingWarning, match="beyond its bounds in 3 features"):
        model = made(DomainAdapter, **RAW).set_params(bounds=(0, 5000)).fit(*signs[1], public=signs[0])
    assert set(model.public_clipped_) == {"x0", "x1", "x2"}
    assert all(0.4 < share < 0.6 for share in model.public_clipped_.values())


@pytest.mark.slow
def test_a_good_public_source_is_kept_by_the_defaults():
    # 60 people at epsilon 1: nothing of their own can be heard.
    public, mine, others = far(4000, 1), far(60, 2), far(2000, 3)
    errors = []
    for seed in range(3):
        model = DomainAdapterRegressor(epsilon=1.0, random_state=seed).fit(*mine, public=public, population=others)
        errors.append(np.mean((model.predict(others[0]) - others[1]) ** 2))
    assert np.mean(errors) < 1.3 * 25.0


def test_pairs_of_columns_and_what_a_public_sample_must_have():
    X = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, np.nan]])
    for given in (X, polars.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2], "y": [0, 1]})):
        assert public_pairs(given, ["a", "b", "c"]) == [(1.0, 3.0), (3.5, 10.5), (-0.5, 0.5)]
    for public, columns, why in (
        (polars.DataFrame({"a": [1.0]}), ["a", "c"], "no column 'c'"),
        (np.zeros((4, 2)), ["a", "b", "c"], "has 2 features, and X has 3"),
        (np.array([["a"]]), ["a"], "numbers only"),
    ):
        with pytest.raises(BadFit, match=why):
            public_pairs(public, columns)
    for responses, low, high, cost in (([-1, 1], -1, 1, 0.0), ([0, 4], 0, 2, 0.5), ([5, 5], 0, 2, np.inf)):
        assert response_cost(np.array(responses, dtype=float), low, high) == pytest.approx(cost)
    assert finite_range(np.array([np.inf, 2.0])) == (1.0, 3.0)
