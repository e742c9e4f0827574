"""TransferRegressor: a number learned from some people and taught by others, in its own units."""

import doctest
from functools import partial

import numpy as np
import pytest

import tandem
from common.core.errors import BadInput
from common.scenario.scenario import parse
from referee.audit.audit import audit
from referee.runs.percents import in_own_units
from tandem.estimators import TransferRegressor, regression
from tandem.estimators.fitting import PrivateClippingWarning
from tests.tandem.estimators.people import check_refused, made
from tests.tiers import for_each

BOUNDS = (10.0, 30.0)


def people(count: int, offset: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, 3))
    return X, 18.0 + offset + 3.0 * X[:, 0] - 1.5 * X[:, 1] + 0.5 * rng.normal(size=count)


@pytest.fixture(scope="module")
def fitted() -> TransferRegressor:
    model = TransferRegressor(epsilon=2.0, agent_epsilon=2.0, response_bounds=BOUNDS, random_state=0)
    return model.fit(*people(3000, 0.0, 1), population=people(6000, 3.0, 2))


def test_it_learns_the_slope_from_the_one_side_and_the_offset_from_the_other(fitted):
    X, y = people(2000, 3.0, 3)
    assert fitted.score(X, y) > 0.8
    assert np.mean((fitted.predict(X) - y) ** 2) < 0.2 * 3.0**2
    assert fitted.estimate_.low <= np.mean((fitted.predict(X) - y) ** 2) <= fitted.estimate_.high
    assert fitted.candidates_[0].name == "model, recalibrated"
    unit = (20.0 * 0.25) ** 2
    assert fitted.gap_ == pytest.approx(unit * fitted.result_["gap"])
    assert fitted.estimate_.high <= unit


def test_a_saved_run_is_audited_and_its_model_predicts_in_the_response_s_unit(fitted, tmp_path):
    assert audit(fitted.save_run(tmp_path / "run")).status == fitted.result_["status"]
    X, _ = people(20, 0.0, 4)
    rows = [{f"x{at}": value for at, value in enumerate(row)} for row in X.tolist()]
    np.testing.assert_allclose(tandem.predict(fitted.to_model(), rows), fitted.predict(X), rtol=1e-5)
    assert tandem.describe(fitted.to_model())[1].startswith("response is this sum, ")
    for asked in (tandem.predict_proba, partial(tandem.predict, costs={"miss": 2.0, "false_alarm": 1.0})):
        with pytest.raises(
            BadInput, match="it predicts a number, and probabilities and costs of mistakes are of labels"
        ):
            asked(fitted.to_model(), rows)


def test_reports_have_its_error_and_the_root_in_the_response_s_unit(fitted):
    found = in_own_units(parse(fitted._scenario), fitted.result_)
    value, root = fitted.estimate_.value, fitted.estimate_.value**0.5
    assert found.startswith(f"mean squared error {value:.4g}, in ")
    assert f"its root {root:.4g}, in " in found
    assert "clipped to 10 .. 30; errors of 5 and more count alike" in found
    unit = (20.0 * 0.25) ** 2  # of the response's bounds and of the errors that count
    ends = {"value": 0.5, "low": 0.1234567 / unit, "high": 0.2345612 / unit}
    near = in_own_units(parse(fitted._scenario), {**fitted.result_, "estimate": {**ends, "confidence": 0.95}})
    assert ", in 0.1234 to 0.2346, in the square" in near, "ends are rounded outward"
    assert ", in 0.3513 to 0.4844, with 95%" in near
    zero_one = {**fitted._scenario, "agents": {**fitted._scenario["agents"], "loss": "zero-one", "bound": 1.0}}
    assert in_own_units(parse({**zero_one, "protocol": "learn-and-test"}), fitted.result_) == ""


@for_each(
    ("change", "words"),
    [
        ({"response_bounds": (3, 3)}, "response_bounds must have low < high"),
        ({"farthest": 0.0}, "farthest must be in"),
        ({"learner": {"name": "discriminant", "norm": 2.0, "mu": "plan"}}, "take a learner of that loss"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_spent(change, words):
    check_refused(made(TransferRegressor, random_state=0, **change), words, *people(2000, 0.0, 1))


def test_bounds_of_the_response_that_were_forgotten_are_told_before_anything_is_spent():
    """Responses of 10 to 30 within the default bounds are all 1: an error of 0 for a model that tells nothing."""
    model = TransferRegressor(random_state=0)
    told = "100.0% of the population's values of y are beyond -1 .. 1.*response_bounds= "
    with pytest.raises(PrivateClippingWarning, match=told):  # warnings are errors here
        model.fit(*people(300, 0.0, 1), population=people(600, 3.0, 2))
    assert not hasattr(model, "guarantee_")


def test_its_example_runs():
    assert doctest.testmod(regression).failed == 0
