"""scikit-learn's own checks, with a budget so large that they test the interface and not the noise.

All run on a deployment that only fits least squares: what they look at is how an estimator reads, refuses and predicts.
Three of each estimator, which look at the model as well, run on the parties themselves.
"""

import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tandem.estimators import EXPECTED_FAILED_CHECKS, DomainAdapter, DomainAdapterRegressor, TransferClassifier, fitting
from tests.tandem.estimators.people import made
from tests.tandem.estimators.plain import Plain
from tests.tiers import for_each, thinned

# Public numbers that suit the checks' data: tens of people, within 4 standard deviations.
GENEROUS = {"epsilon": 500.0, "delta": 1e-3, "agent_epsilon": 20.0, "bounds": (-4.0, 4.0)}


class Adapting(DomainAdapter):
    """The checks know of no public sample: they give the same people as one."""

    def fit(self, X, y=None):  # type: ignore[override]
        return super().fit(X, y, public=(X, y))


class AdaptingRegressor(DomainAdapterRegressor):
    """The same for regression."""

    def fit(self, X, y=None):  # type: ignore[override]
        return super().fit(X, y, public=(X, y))


def exceptions(estimator: object) -> Mapping[str, str]:
    names = [kind.__name__ for kind in type(estimator).__mro__]
    return next(EXPECTED_FAILED_CHECKS[name] for name in names if name in EXPECTED_FAILED_CHECKS)


ESTIMATORS = [
    # Nearly all are the curator's: it wants more than ten. The noise is enough for any of the checks' data, so that no
    # check waits for a plan of it.
    made(
        TransferClassifier,
        **GENEROUS,
        population_fraction=0.06,
        kappa=1.0,
        rounds=1,
        learner={"name": "sgd", "steps": 3000, "noise": 8.0},
    ),
    made(Adapting, **GENEROUS, population_fraction=0.1, iterations=200),
    made(
        AdaptingRegressor,
        **GENEROUS,
        population_fraction=0.1,
        iterations=200,
        response_bounds=(-4.0, 4.0),
        norm=0.8,
        radius=2.0,
    ),
]


# Some checks fit data around 100, beyond the declared bounds of (-4, 4): the adapters say so. Few of them are agents.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tandem.estimators.frames.PublicClippingWarning")
@pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exceptions)
def test_scikit_learn_is_content(estimator, check, monkeypatch):
    monkeypatch.setattr(fitting, "Embedded", Plain)
    check(estimator)


@pytest.mark.filterwarnings("ignore::tandem.estimators.frames.PublicClippingWarning")
@pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")
@for_each("check", thinned(["check_estimators_pickle", "check_fit_idempotent", "check_{kind}s_train"], 1))
@for_each("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_it_is_content_with_the_parties_themselves(estimator: Any, check: str) -> None:
    kind = "classifier" if is_classifier(estimator) else "regressor"
    planned = {"learner": {"name": "sgd", "steps": 3000}} if isinstance(estimator, TransferClassifier) else {}
    asked = clone(estimator).set_params(**planned)
    getattr(estimator_checks, check.format(kind=kind))(type(estimator).__name__, asked)


@for_each("name", EXPECTED_FAILED_CHECKS)
def test_the_exceptions_are_documented(name):
    page = (Path(__file__).parents[3] / "docs" / "estimators.md").read_text("utf-8")
    for check, reason in EXPECTED_FAILED_CHECKS[name].items():
        assert f"| `{name}` | `{check}` | {reason} |" in page


EXAMPLES = Path(__file__).parents[3] / "examples" / "estimators"


@pytest.mark.slow
def test_an_adapted_model_is_better_than_the_public_one(capsys):
    runpy.run_path(str(EXAMPLES / "adapt.py"))["main"](1)
    alone, adapted = map(float, re.findall(r"error (\d\.\d+)", capsys.readouterr().out))
    assert adapted < 0.9 * alone


@pytest.mark.slow
def test_what_fits_repairs_the_testers_model(capsys, tmp_path):
    """A model alone errs on 14% in the ball that this example had, and its repair by reweighing in it on 5.5%."""
    runpy.run_path(str(EXAMPLES / "renewals.py"))["main"](tmp_path, 1)
    alone, fitting = map(float, re.findall(r"errs on (\d+\.\d)%", capsys.readouterr().out))
    assert fitting < min(5.5, 0.7 * alone)
