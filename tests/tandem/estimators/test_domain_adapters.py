"""DomainAdapter and DomainAdapterRegressor: a public source helps a few private people of the target."""

from __future__ import annotations

import numpy as np
import polars
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from common.core.errors import BadFit
from referee.audit.audit import audit
from tandem.estimators import DomainAdapter, DomainAdapterRegressor, PublicClippingWarning
from tests.tiers import for_each

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


@pytest.fixture(scope="module")
def classifier(domains):
    source, mine, others, _ = map(signs, domains)
    model = DomainAdapter(epsilon=4.0, agent_epsilon=4.0, iterations=500, random_state=0)
    return model.fit(*mine, public=source, population=others)


@pytest.fixture(scope="module")
def regressor(domains):
    source, mine, others, _ = domains
    model = DomainAdapterRegressor(epsilon=4.0, agent_epsilon=4.0, iterations=500, random_state=0)
    return model.fit(*mine, public=source, population=others)


class TestClassifier:
    def test_it_is_better_on_the_target_than_the_source_alone(self, classifier, domains):
        source, judges = signs(domains[0]), signs(domains[3])
        assert classifier.score(*judges) > LogisticRegression().fit(*source).score(*judges) + 0.05

    def test_the_estimate_is_about_the_target(self, classifier, domains):
        assert classifier.estimate_.low <= 1.0 - classifier.score(*signs(domains[3])) <= classifier.estimate_.high

    def test_the_run_can_be_audited(self, classifier, tmp_path):
        assert audit(classifier.save_run(tmp_path / "run"), None, None).status == "done"

    def test_the_guarantee_says_that_the_public_sample_is_not_protected(self, classifier):
        assert classifier.guarantee_.epsilon == 4.0
        assert "every record of the public sample" in classifier.guarantee_.assumptions

    def test_the_source_may_be_the_private_side(self, domains):
        source, public, others, judges = map(signs, domains)
        model = DomainAdapter(epsilon=4.0, iterations=500, private="source", random_state=0)
        assert model.fit(*source, public=public, population=others).score(*judges) > 0.8


class TestRegressor:
    def test_it_is_better_on_the_target_than_the_source_alone(self, regressor, domains):
        source, _, _, judges = domains
        assert regressor.score(*judges) > LinearRegression().fit(*source).score(*judges) + 0.1

    def test_the_estimate_is_in_the_units_of_the_response(self, domains):
        source, mine, others, judges = ((X, 100 * y) for X, y in domains)
        model = DomainAdapterRegressor(
            epsilon=4.0, agent_epsilon=8.0, iterations=500, response_bounds=(-100, 100), random_state=0
        )
        model.fit(*mine, public=source, population=others)
        error = float(np.mean((model.predict(judges[0]) - judges[1]) ** 2))
        assert error > 100.0
        assert model.estimate_.low <= error <= model.estimate_.high

    def test_predictions_keep_to_the_public_bounds(self, regressor, domains):
        found = regressor.predict(np.random.default_rng(0).uniform(-3, 3, (1000, 4)))
        assert domains[0][1].min() <= found.min() < found.max() <= domains[0][1].max()

    def test_responses_beyond_the_bounds_are_clipped(self, domains):
        source, mine, _, _ = domains
        model = DomainAdapterRegressor(iterations=50, response_bounds=(-0.2, 0.2), random_state=0)
        far = (mine[0], np.where(np.abs(mine[1]) > 0.2, 1e6 * mine[1], mine[1]))
        clipped = (mine[0], np.clip(mine[1], -0.2, 0.2))
        with pytest.warns(PublicClippingWarning, match="of the public sample's responses are beyond response_bounds"):
            first, second = (
                DomainAdapterRegressor(**model.get_params()).fit(*p, public=source) for p in (far, clipped)
            )
        assert first.hypothesis_ == second.hypothesis_

    @pytest.mark.slow
    def test_frames_with_a_column_to_predict(self, regressor, domains):
        frames = [polars.DataFrame(dict(zip("abcdy", (*X.T, y), strict=True))) for X, y in domains[:3]]
        model = DomainAdapterRegressor(**regressor.get_params())
        model.fit(frames[1], "y", public=frames[0], population=frames[2])
        assert model.hypothesis_ == regressor.hypothesis_
        schema = {"features": [{"kind": "number", "column": name, "low": -1, "high": 1} for name in "abcd"]}
        declared = DomainAdapterRegressor(**model.get_params()).set_params(bounds=(-1.0, 1.0))
        declared.fit(frames[1], "y", public=frames[0], population=frames[2])
        model.set_params(bounds=(-1.0, 1.0), schema=schema)
        model.fit(frames[1], "y", public=frames[0], population=frames[2])
        assert model.hypothesis_ == declared.hypothesis_


class TestChoice:
    """Settings are chosen inside the budget: scikit-learn's search would spend it again and again."""

    @pytest.mark.slow
    def test_the_best_of_a_grid_within_the_same_budget(self, domains):
        source, mine, others, judges = map(signs, domains)
        model = DomainAdapter(epsilon=4.0, iterations=300, grid={"alpha": (0.1, 0.5), "radius": (0.1, 10.0)})
        model.set_params(random_state=0).fit(*mine, public=source, population=others)
        assert model.score(*judges) > 0.75
        assert (model.guarantee_.epsilon, model.guarantee_.delta) == (4.0, 1e-6)
        learner = model._scenario["curator"]["learner"]
        assert (learner["name"], learner["judges"], learner["loss"]) == ("chosen", "held-out", "zero-one")

    @pytest.mark.slow
    def test_a_public_target_judges_without_noise(self, domains):
        source, public, others, _ = domains
        law = {"name": "poisson", "rate": 1.0, "most": 4}
        model = DomainAdapterRegressor(epsilon=4.0, iterations=100, private="source", grid={"alpha": [0.2, 0.8]})
        model.set_params(choice={"law": law}, random_state=0).fit(*source, public=public, population=others)
        learner = model._scenario["curator"]["learner"]
        assert (learner["judges"], learner["law"]["rate"]) == ("public", 1.0)

    def test_the_scores_own_setting_is_refused_in_the_grid(self, domains):
        with pytest.raises(BadFit, match="mu is the same for all candidates"):
            DomainAdapter(grid={"mu": [0.1, 10.0]}).fit(*signs(domains[1]), public=signs(domains[0]))


REFUSALS = {
    "no public sample": ({}, {"public": None}, "give public="),
    "other features": ({}, {"public": (np.zeros((50, 3)), np.arange(50) % 2)}, "3 features"),
    "alpha 1": ({"alpha": 1.0}, {}, "alpha"),
    "alpha 0": ({"alpha": 0}, {}, "alpha"),
    "delta 0": ({"delta": 0.0}, {}, "positive delta"),
    "epsilon beyond": ({"epsilon": 800.0}, {}, "epsilon must be positive and at most 700"),
    "reverse without population": ({"private": "source"}, {}, "give population="),
    "unknown setting": ({"settings": {"colour": 1}}, {}, "colour: unknown key"),
    "nobody to ask": ({"population_fraction": 1e-4}, {}, "too few to share out"),
}


@for_each("kind", [DomainAdapter, DomainAdapterRegressor])
@for_each("case", REFUSALS)
def test_what_is_refused_touches_nothing(kind, case, monkeypatch):
    monkeypatch.setattr("tandem.estimators.base.run", lambda *arguments: pytest.fail("the run began"))
    X, y = domain(200, TARGET, 0.0, 1)
    people = (X, (y > 0).astype(float))
    changes, given, said = REFUSALS[case]
    model = kind(**changes)
    with pytest.raises(ValueError, match=said):
        model.fit(*people, **{"public": people} | given)
    assert not hasattr(model, "guarantee_")


def test_a_norm_of_the_schema_would_bend_responses():
    schema = {"features": [{"kind": "number", "column": "a", "low": 0, "high": 1}], "norm": 0.5}
    frame = polars.DataFrame({"a": [0.1] * 50, "y": [0.2] * 50})
    with pytest.raises(BadFit, match="give norm= instead"):
        DomainAdapterRegressor(schema=schema).fit(frame, "y", public=frame)


def test_responses_must_be_numbers():
    frame = polars.DataFrame({"a": [0.1] * 50, "y": ["high"] * 50})
    schema = {"features": [{"kind": "number", "column": "a", "low": 0, "high": 1}]}
    with pytest.raises(BadFit, match="numbers only"):
        DomainAdapterRegressor(schema=schema).fit(frame, "y", public=frame)
