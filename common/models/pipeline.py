"""A model as a pipeline of scikit-learn: raw rows to features, features to labels, both by the released answer's rules.

It is made from a model's JSON document, never from a pickle, so that reading a model executes no code. The steps have
plain values as parameters, which ``clone`` copies; they are not fitted again.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from common.core.arrays import AnyArray, Floats, Singles
from common.core.errors import BadInput
from common.local.hypotheses.composed import Argmax, Relabelled
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor
from common.models.model import Model, feature_names, features_of, predictions, target_of


class _Released(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of both steps, which stores the model's own fields, as JSON."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def __getstate__(self) -> dict[str, Any]:
        return {"document": self.document}

    @property
    def model(self) -> Model:
        if "_model" not in vars(self):
            self._model = Model.parse(self.document)
        return self._model

    def fit(self, X: Any, y: Any = None) -> Self:
        raise BadInput("a released model is not fitted again: its run has learned it, and was paid for")

    def __sklearn_is_fitted__(self) -> bool:
        return True


class ColumnFeatures(TransformerMixin, _Released):  # type: ignore[misc]  # scikit-learn has no types
    """The step from raw rows to features: numbers scaled by public bounds, categories one-hot, rows within the norm."""

    def transform(self, X: Any) -> Singles:
        """Return the features of rows (a frame, a list of mappings or a file's path), shape (n, d), float32."""
        return features_of(self.model, X)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        return np.asarray(feature_names(self.model), dtype=object)

    @property
    def feature_names_in_(self) -> AnyArray:
        return np.asarray(self.model.columns, dtype=object)


class ReleasedClassifier(ClassifierMixin, _Released):  # type: ignore[misc]  # scikit-learn has no types
    """The step from features to labels as the table spells them; a half-space has ``coef_`` and ``intercept_``."""

    @property
    def classes_(self) -> AnyArray:
        """The names of the labels; of two, the negative one first."""
        return np.asarray(target_of(self.model).names)

    @property
    def coef_(self) -> Floats:
        return np.asarray([self._linear().weights])

    @property
    def intercept_(self) -> Floats:
        return np.asarray([-self._linear().threshold])

    def predict(self, X: Any) -> AnyArray:
        return predictions(self.model, np.asarray(X, dtype=np.float32))

    @available_if(lambda step: not isinstance(step.model.hypothesis, Argmax))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def decision_function(self, X: Any) -> Floats:
        """Return a score for each row, shape (n,), above 0 for the positive label: :meth:`.model.Model.ranks`."""
        return self.model.ranks(np.asarray(X, dtype=np.float32))

    @available_if(lambda step: step.model.calibrated is not None)  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the C labels, shape (n, C); :func:`.model.calibration` states their accuracy."""
        return self.model.probabilities_by_class(np.asarray(X, dtype=np.float32))

    def _linear(self) -> Linear:
        hypothesis: Hypothesis = self.model.hypothesis
        hypothesis = hypothesis.hypothesis if isinstance(hypothesis, Relabelled) else hypothesis
        if not isinstance(hypothesis, Linear):
            raise AttributeError(f"a model of kind {hypothesis.kind!r} has no coef_")
        return hypothesis


class ReleasedRegressor(RegressorMixin, _Released):  # type: ignore[misc]  # scikit-learn has no types
    """The step from features to a number in the column's own unit."""

    def predict(self, X: Any) -> Floats:
        return predictions(self.model, np.asarray(X, dtype=np.float32))


def as_pipeline(model: Model) -> Pipeline:
    """Return a model as a pipeline of two steps, ``columns`` and ``model``, for raw rows.

    Raises:
        BadInput: If the model cannot be used on new rows.
    """
    _ = model.inputs
    document = model.wire()
    last = ReleasedRegressor if isinstance(model.hypothesis, Regressor) else ReleasedClassifier
    return Pipeline([("columns", ColumnFeatures(document)), ("model", last(document))])
