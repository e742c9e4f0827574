"""TransferClassifier: what a fit gives, what it costs, and what is refused before anything is spent."""

import copy
import doctest
import re
import tempfile

import numpy as np
import polars
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from common.core.errors import BadFit, BrokenLedger, FitFailed
from common.statistics.calibration import Belief
from referee.audit.audit import audit
from tandem.estimators import (
    DomainAdapter,
    DomainAdapterRegressor,
    PublicClippingWarning,
    TransferClassifier,
    fitting,
    transfer,
)
from tests.tandem.estimators.people import QUICK, check_refused, made, square
from tests.tiers import for_each


def quick(**changes):
    given = {"protocol": "subsample-test-reweigh", "rounds": 2, "learner": QUICK, "random_state": 0} | changes
    return made(TransferClassifier, **given)


PEOPLE = square(300, 1)


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*square(400, 1))


@pytest.mark.slow
def test_it_learns_what_the_sample_misses():
    """The right half is 30 times rarer in the sample than in the population, which is asked."""
    everybody = square(6000, 2)
    model = quick(epsilon=4.0, agent_epsilon=4.0, kappa=0.2, rounds=3, random_state=3, learner="sgd")
    model.fit(*square(6000, 1, rare=0.03), population=everybody)
    assert model.score(*everybody) > 0.93
    assert model.estimate_.low <= 1.0 - model.score(*everybody) <= model.estimate_.high


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")
def test_a_column_or_a_class_that_does_not_vary_on_one_side_is_no_crash():
    """The column that S lacks says nothing: a model of it is judged on T as any other."""
    (X, y), (others, truth) = square(400, 1), square(400, 2)
    flat = np.column_stack([X, np.full(400, 0.3)])
    wide = np.column_stack([others, np.linspace(-1, 1, 400)])
    gaussian = {"name": "discriminant", "norm": 2.0, "mu": "plan"}
    for learner, people, labels, asked, theirs in (
        (QUICK, flat, y, wide, truth),
        (gaussian, flat, y, wide, truth),
        (gaussian, X, np.ones(400, dtype=int), others, truth),
        (QUICK, X, y, others, np.zeros(400, dtype=int)),
    ):
        model = made(TransferClassifier, learner=learner, classes=(0, 1), random_state=0)
        model.fit(people, labels, population=(asked, theirs))
        assert set(model.predict(asked)) <= {0, 1}
        assert model.guarantee_.delta == 1e-4  # a tenth of 1/n at most: of the curator's 400 people


@pytest.mark.slow
def test_a_field_that_is_no_number_is_named_by_whose_it_is_and_its_row():
    schema = {"features": [{"kind": "number", "column": "a", "low": -1, "high": 1}]}
    frame = polars.DataFrame({"a": [f"{value:.3f}" for value in PEOPLE[0][:, 0]]})
    others = frame.with_columns(a=polars.Series(["0.1", "soon", *frame["a"][2:]]))
    with pytest.raises(BadFit, match="the population, row 2, column 'a': must be a finite number"):
        quick(schema=schema, classes=(0, 1)).fit(frame, PEOPLE[1], population=(others, PEOPLE[1]))


@pytest.mark.slow
def test_real_people_get_noise_that_nobody_can_repeat():
    first, second = (quick(random_state=None, lifetime=(2.0, 1e-3)).fit(*PEOPLE) for _ in range(2))
    assert first.hypothesis_ != second.hypothesis_
    assert not first.guarantee_.simulated
    assert first._scenario["people"] == "real"


@pytest.mark.slow
def test_the_same_seed_is_the_same_model_and_is_called_simulated(fitted):
    again = clone(fitted).fit(*square(400, 1))
    assert again.hypothesis_ == fitted.hypothesis_
    assert again.guarantee_.simulated
    assert "SIMULATED" in str(again.guarantee_)


@pytest.mark.slow
def test_realizable_stops_at_the_first_model_that_is_good_enough():
    model = quick(epsilon=4.0, agent_epsilon=4.0, mode="realizable", rounds=5, learner="sgd")
    model.fit(*square(2000, 1), population=square(3000, 2))
    assert (model.result_["status"], model.result_["iterations"]) == ("done", 1)
    assert model.result_["agents"]["asked"] < 3000


@pytest.mark.slow
def test_classes_may_have_any_names():
    X, y = PEOPLE
    named = np.where(y == 1, "stays", "leaves")
    model = quick().fit(X, named)
    assert set(model.predict(X)) <= {"stays", "leaves"}
    declared = quick(classes=("stays", "leaves")).fit(X, named)
    assert list(declared.classes_) == ["stays", "leaves"]
    assert not any("read off" in told for told in declared.guarantee_.assumptions)
    # What an earlier fit took for public stays taken for public in the sum.
    later = model.set_params(options={"classes": ("stays", "leaves")}).fit(X, named).guarantee_
    assert sum("read off" in told for told in later.assumptions) == 1
    assert "the names of the classes, as they were read off y" in str(later)


def test_the_verdict_of_each_fit_names_its_own_classes():
    X, y = square(1000, 1)
    model = made(TransferClassifier, protocol="portfolio", random_state=0)
    for names in (np.array([5, 7]), np.array(["leaves", "stays"])):
        model.fit(X, names[y], population=(X, names[y]))
        said = re.findall("[Ss]aying (.*?) to everybody errs", model.verdict_.text)
        assert set(said) <= {f"'{name}'" for name in names}
        assert said


def test_no_record_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "_place", lambda size: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    quick().fit(*PEOPLE)
    with pytest.raises(BadFit):
        quick(learner="svm").fit(*PEOPLE)
    assert not list(tmp_path.iterdir())


def test_the_run_can_be_audited_and_promises_what_the_curator_enforced(fitted, tmp_path):
    assert audit(fitted.save_run(tmp_path / "run"), None, None).status == fitted.result_["status"]
    promised = fitted.result_["privacy"]
    assert promised["curator"] == {**fitted.guarantee_.curator.wire(), "covers": "run"}
    assert promised["agent"]["epsilon"] == fitted.guarantee_.agent_epsilon


@pytest.mark.slow
def test_each_fit_of_an_object_is_counted():
    model = quick(epsilon=0.5, delta=1e-5, agent_epsilon=2.0).fit(*PEOPLE)
    assert (model.guarantee_.epsilon, model.guarantee_.delta, model.guarantee_.agent_epsilon) == (0.5, 1e-5, 2.0)
    model.fit(*PEOPLE)
    assert 1.0 <= model.guarantee_.epsilon == pytest.approx(1.0)
    assert [fit.people + fit.agents for fit in model.guarantee_.fits] == [300, 300]


def test_a_fit_that_fails_on_the_way_is_counted_and_a_refusal_costs_nothing(fitted, monkeypatch):
    def broken(*given):
        raise FitFailed("somebody pulled the plug")

    monkeypatch.setattr("tandem.estimators.base.run", broken)
    model = quick()
    with pytest.raises(FitFailed):
        model.fit(*PEOPLE)
    assert len(model.guarantee_.fits) == 1
    assert not hasattr(model, "hypothesis_")
    model = copy.copy(fitted)
    with pytest.raises(BadFit):
        model.fit(*square(20, 1))
    assert model.guarantee_ is fitted.guarantee_


def test_a_fit_that_is_refused_after_its_run_has_begun_is_counted(monkeypatch):
    def gone(*given):
        raise BrokenLedger("who was charged is gone")

    monkeypatch.setattr("deploy.deployment.spent_over_all_runs", gone)
    model = quick()
    with pytest.raises(FitFailed, match="counts as spent: who was charged is gone"):
        model.fit(*PEOPLE)
    assert len(model.guarantee_.fits) == 1


@pytest.mark.slow
@pytest.mark.parametrize("record", [[1e300, -1e300], [np.nan, np.nan]])
def test_everything_public_of_a_fit_is_the_same_for_neighbours(record):
    """Bounds, steps, noise, numbers: nothing in the scenario depends on what somebody's record holds."""
    other, labels = map(np.array, PEOPLE)
    other[7], labels[7] = record, 1 - labels[7]
    first, second = (quick(classes=(0, 1)).fit(*people) for people in (PEOPLE, (other, labels)))
    assert first._scenario == second._scenario
    assert first.guarantee_ == second.guarantee_


REFUSALS = {
    "few people": ({"kappa": 0.05, "learner": QUICK | {"noise": 8.0}}, "people are too few|n_samples=.* too few"),
    "no budget": ({"epsilon": None}, "epsilon must be a finite number"),
    "infinite budget": ({"epsilon": np.inf}, "epsilon must be a finite number"),
    "negative budget": ({"epsilon": -1.0}, "curator.epsilon"),
    "impossible budget": ({"epsilon": 1e-9, "delta": 1e-6}, "no noise"),
    "alpha": ({"alpha": 1.2}, "alpha"),
    "kappa": ({"kappa": 1.5}, "kappa must be in"),
    "half a round": ({"rounds": 1.5}, "rounds must be a whole number"),
    "unknown mode": ({"mode": "hopeful"}, "mode"),
    "rounds": ({"rounds": 1000}, "every round asks at least one"),
    "fraction": ({"population_fraction": 1.0}, "population_fraction must be in"),
    "learner without guarantee": ({"learner": {"name": "svm", "draws": 50}}, "costs epsilon = inf"),
    "unknown learner": ({"learner": "oracle"}, "no learner has the name"),
    "unknown setting": ({"learner": {"name": "sgd", "colour": 1}}, "colour: unknown key"),
    "noise too small": ({"learner": {"name": "sgd", "noise": 0.1}}, "the budget is 1"),
    "bounds": ({"bounds": (1.0, -1.0)}, "low < high"),
    "bounds too far apart": ({"bounds": (-1e308, 1e308)}, "farther apart than any number"),
    "bounds of each": ({"bounds": [(0, 1)]}, "1 pairs for 2 columns"),
    "bounds by name": ({"bounds": {"x0": (0, 1)}}, "bounds: 'x1': there are none"),
    "norm": ({"norm": -2.0}, "norm must be"),
    "classes": ({"classes": (1, 1)}, "two different values"),
    "other classes": ({"classes": (1, 2)}, "none of the two classes"),
    "costs as on the command line": ({"costs": "10:1"}, "costs must be a mapping such as {'miss': 10, 'false_alarm'"),
}
LONG = ("impossible budget",)
"""The search for how many people would do takes long there."""


@pytest.mark.slow
@for_each("case", [pytest.param(case, marks=[pytest.mark.thorough] * (case in LONG)) for case in REFUSALS])
def test_what_is_refused_is_a_value_error_and_touches_nothing(case):
    changes, said = REFUSALS[case]
    check_refused(quick(**changes), said, *square(200, 1))
    assert issubclass(BadFit, ValueError)


def test_source_and_population_must_have_the_same_features():
    X, y = PEOPLE
    with pytest.raises(ValueError, match="features"):
        quick().fit(X, y, population=(X[:, :1], y))


def test_in_a_pipeline_and_in_a_grid_search():
    X, y = PEOPLE
    doubled = make_pipeline(FunctionTransformer(lambda X: 2 * X), quick(bounds=(-2, 2))).fit(X, y)
    np.testing.assert_array_equal(doubled.predict(X), quick().fit(X, y).predict(X))
    search = GridSearchCV(quick(), {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y, population=square(200, 2))
    assert search.best_estimator_.guarantee_.fits[0].agents == 200


def test_the_example_of_the_docstring_holds():
    found = doctest.testmod(transfer)
    assert (found.attempted > 3, found.failed) == (True, 0)


POISSON = {"name": "poisson", "rate": 1.0, "most": 4}
SOURCE, TARGET = np.array([0.6, -0.4, 0.3, 0.0]), np.array([0.6, -0.4, -0.3, 0.3])


def domain(count, weights, shift, seed):
    """Return people around ``shift`` whose response is linear, with a little noise."""
    generator = np.random.default_rng(seed)
    X = np.clip(0.3 * generator.normal(size=(count, 4)) + shift, -1, 1)
    return X, X @ weights + 0.1 * generator.normal(size=count)


@pytest.fixture(scope="module")
def domains():
    """A public source, the curator's people of the target, the population, and others to judge by."""
    return (
        domain(3000, SOURCE, 0.2, 1),
        *(domain(count, TARGET, -0.2, seed) for seed, count in enumerate((2000, 2000, 2000), start=2)),
    )


def signs(people):
    return people[0], np.where(people[1] > 0, "up", "down")


def adapted(kind, domains, **changes):
    """Return an adapter of a public source to the curator's people, tested by the population."""
    source, mine, others, _ = map(signs, domains) if kind is DomainAdapter else domains
    given = {"epsilon": 4.0, "agent_epsilon": 4.0, "iterations": 500, "random_state": 0}
    return made(kind, **given | changes).fit(*mine, public=source, population=others)


@pytest.fixture(scope="module")
def regressor(domains):
    return adapted(DomainAdapterRegressor, domains)


def test_a_classifier_is_better_on_the_target_than_the_source_alone_and_its_run_can_be_audited(domains, tmp_path):
    classifier = adapted(DomainAdapter, domains)
    source, judges = signs(domains[0]), signs(domains[3])
    assert classifier.score(*judges) > LogisticRegression().fit(*source).score(*judges) + 0.05
    assert classifier.estimate_.low <= 1.0 - classifier.score(*judges) <= classifier.estimate_.high
    assert audit(classifier.save_run(tmp_path / "run"), None, None).status == "done"
    assert classifier.guarantee_.epsilon == 4.0
    assert "every record of the public sample" in classifier.guarantee_.assumptions


def test_the_source_may_be_the_private_side(domains):
    source, public, others, judges = domains
    assert adapted(DomainAdapter, (public, source, others, judges), private="source").score(*signs(judges)) > 0.8


def test_a_regressor_is_better_on_the_target_than_the_source_alone_within_the_public_bounds(regressor, domains):
    source, _, _, judges = domains
    assert regressor.score(*judges) > LinearRegression().fit(*source).score(*judges) + 0.1
    found = regressor.predict(np.random.default_rng(0).uniform(-3, 3, (1000, 4)))
    assert source[1].min() <= found.min() < found.max() <= source[1].max()


def test_the_estimate_is_in_the_units_of_the_response(domains):
    larger = [(X, 100 * y) for X, y in domains]
    model = adapted(DomainAdapterRegressor, larger, agent_epsilon=8.0, response_bounds=(-100, 100))
    error = float(np.mean((model.predict(larger[3][0]) - larger[3][1]) ** 2))
    assert error > 100.0
    assert model.estimate_.low <= error <= model.estimate_.high


def test_responses_beyond_the_bounds_are_clipped(domains):
    source, (X, y), _, _ = domains
    far, clipped = np.where(np.abs(y) > 0.2, 1e6 * y, y), np.clip(y, -0.2, 0.2)
    models = [
        made(DomainAdapterRegressor, iterations=50, response_bounds=(-0.2, 0.2), random_state=0) for _ in range(2)
    ]
    with pytest.warns(PublicClippingWarning, match="of the public sample's responses are beyond response_bounds"):
        first, second = (
            model.fit(X, given, public=source) for model, given in zip(models, (far, clipped), strict=True)
        )
    assert first.hypothesis_ == second.hypothesis_


@pytest.mark.slow
def test_frames_with_a_column_to_predict(regressor, domains):
    frames = [polars.DataFrame(dict(zip("abcdy", (*X.T, y), strict=True))) for X, y in domains[:3]]

    def learned(**changes):
        model = DomainAdapterRegressor(**{**regressor.get_params(), **changes})
        return model.fit(frames[1], "y", public=frames[0], population=frames[2]).hypothesis_

    assert learned() == regressor.hypothesis_
    schema = {"features": [{"kind": "number", "column": name, "low": -1, "high": 1} for name in "abcd"]}
    assert learned(bounds=(-1.0, 1.0), schema=schema) == learned(bounds=(-1.0, 1.0))


# Settings are chosen inside the budget: scikit-learn's search would spend it again and again.


@pytest.mark.slow
def test_the_best_of_a_grid_within_the_same_budget(domains):
    model = adapted(DomainAdapter, domains, iterations=300, grid={"alpha": (0.1, 0.5), "radius": (0.1, 10.0)})
    assert model.score(*signs(domains[3])) > 0.75
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (4.0, 1e-5)
    learner = model._scenario["curator"]["learner"]
    assert (learner["name"], learner["judges"], learner["loss"]) == ("chosen", "held-out", "zero-one")


@pytest.mark.slow
def test_a_public_target_judges_without_noise(domains):
    source, public, others, judges = domains
    given = {"private": "source", "grid": {"alpha": [0.2, 0.8]}, "choice": {"law": POISSON}}
    model = adapted(DomainAdapterRegressor, (public, source, others, judges), iterations=100, **given)
    learner = model._scenario["curator"]["learner"]
    assert (learner["judges"], learner["law"]["rate"]) == ("public", 1.0)


def test_the_scores_own_setting_is_refused_in_the_grid(domains):
    with pytest.raises(BadFit, match="mu is the same for all candidates"):
        DomainAdapter(grid={"mu": [0.1, 10.0]}).fit(*signs(domains[1]), public=signs(domains[0]))


ADAPTERS_REFUSALS = {
    "no public sample": ({}, {"public": None}, "give public="),
    "other features": ({}, {"public": (np.zeros((50, 3)), np.arange(50) % 2)}, "3 features"),
    "alpha 1": ({"alpha": 1.0}, {}, "alpha"),
    "alpha 0": ({"alpha": 0}, {}, "alpha"),
    "delta 0": ({"delta": 0.0}, {}, "positive delta"),
    "epsilon beyond": ({"epsilon": 800.0}, {}, "epsilon must be positive and at most 700"),
    "reverse without population": ({"private": "source"}, {}, "give population="),
    "unknown setting": ({"colour": 1}, {}, "colour: unknown key"),
    "unknown option": ({"options": {"colour": 1}}, {}, "options: colour: unknown key; known: choice"),
    "nobody to ask": ({"population_fraction": 1e-4}, {}, "too few to share out"),
}


@for_each("kind", [DomainAdapter, DomainAdapterRegressor])
@for_each("case", ADAPTERS_REFUSALS)
def test_what_is_refused_touches_nothing(kind, case):
    X, y = domain(200, TARGET, 0.0, 1)
    people = (X, (y > 0).astype(float))
    changes, given, said = ADAPTERS_REFUSALS[case]
    check_refused(made(kind, **changes), said, *people, **{"public": people} | given)


def test_a_norm_of_the_schema_would_bend_responses_which_must_be_numbers():
    schema = {"features": [{"kind": "number", "column": "a", "low": 0, "high": 1}]}
    for further, response, why in (({"norm": 0.5}, 0.2, "give settings="), ({}, "high", "numbers only")):
        frame = polars.DataFrame({"a": [0.1] * 50, "y": [response] * 50})
        with pytest.raises(BadFit, match=why):
            DomainAdapterRegressor(schema=schema | further).fit(frame, "y", public=frame)


@pytest.mark.slow
def test_few_agents_whose_labels_go_with_another_feature_have_no_sure_probabilities(monkeypatch):
    """They do not teach the slope: what their judges say of mistakes tells it, with no further answer."""

    def log_loss() -> float:
        source, agents, others = (np.random.default_rng(seed).uniform(-1, 1, (2500, 3)) for seed in (1, 2, 3))
        labels = (source[:, 0] > 0, agents[:, 1] > 0, others[:, 1] > 0)
        model = TransferClassifier(1.0, protocol="portfolio", random_state=0)
        model.fit(source, labels[0], population=(agents, labels[1]))
        chance = model.predict_proba(others)[np.arange(len(others)), labels[2].astype(int)]
        return float(-np.log(chance).mean())

    found = log_loss()
    monkeypatch.setattr(Belief, "judged", lambda belief, *said: belief)
    assert found < np.log(2.0) + 0.1 < log_loss() - 0.1
