"""What a fit released is a model like that of a run, with the names of its own columns and classes."""

from __future__ import annotations

import numpy as np
import pytest

import tandem
from tandem.estimators import DomainAdapterRegressor, TransferClassifier, fitting
from tests.tandem.estimators.people import QUICK, SCHEMA, customers, square
from tests.tandem.estimators.plain import Plain

UNPLANNED = {"name": "sgd", "steps": 3000, "noise": 8.0}
"""Its noise is given: planning it takes longer than all else here."""

# Most fits here have few agents, who cannot judge: that is said, and tested in test_fitting_estimators.
pytestmark = pytest.mark.filterwarnings("ignore::tandem.estimators.fitting.CannotHelpWarning")


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Least squares without noise, and no parties."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "Embedded", Plain)
        yield


@pytest.mark.filterwarnings("ignore::tandem.models.DataNote")
def test_a_classifier_s_model_predicts_as_it_does(tmp_path):
    fitted = TransferClassifier(rounds=1, learner=UNPLANNED, epsilon=500.0, delta=1e-3, random_state=0, schema=SCHEMA)
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


@pytest.mark.slow
def test_columns_without_names_are_x0_x1_and_classes_become_texts():
    X, y = square(300, 1)
    fitted = TransferClassifier(rounds=1, learner=QUICK, random_state=0).fit(X, y)
    rows = [{"x0": float(a), "x1": float(b)} for a, b in X[:20]]
    assert tandem.predict(fitted.to_model(), rows).tolist() == [str(label) for label in fitted.predict(X[:20])]


def test_a_regressor_s_model_predicts_in_the_unit_of_its_response():
    X, _ = square(300, 1)
    y = 20.0 + 4.0 * X[:, 0]
    fitted = DomainAdapterRegressor(response_bounds=(10.0, 30.0), random_state=0).fit(X, y, public=(X, y))
    model = fitted.to_model()
    rows = [{"x0": float(a), "x1": float(b)} for a, b in X[:20]]
    np.testing.assert_allclose(tandem.predict(model, rows), fitted.predict(X[:20]), rtol=1e-6)
    np.testing.assert_allclose(tandem.as_sklearn(model).predict(rows), y[:20], rtol=1e-3)
    assert any(line.startswith("  x0, a unit") and "+4 " in line for line in tandem.describe(model))
