"""What both classifiers share: two public classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars
from sklearn.base import ClassifierMixin

from common.core.arrays import AnyArray
from common.data.tables import Label, TableSource
from common.models.model import Model
from tandem.estimators.base import HybridEstimator
from tandem.estimators.classes import Classes, public_classes
from tandem.estimators.shared.frames import labelled
from tandem.estimators.shared.schema import described


class BinaryClassifier(ClassifierMixin, HybridEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the classifiers; not one itself."""

    classes: Any
    classes_: AnyArray
    _classes: Classes
    _read_off: bool

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each of n people, shape (n,)."""
        features = self._encoded(X)
        return self.classes_[(self.hypothesis_.predict(features) > 0).astype(np.int64)]

    def decision_function(self, X: Any) -> AnyArray:
        """Return how far each person is on the side of ``classes_[1]``, shape (n,); above 0 means that class."""
        features = self._encoded(X)
        return self.hypothesis_.margins(features)

    def to_model(self) -> Model:
        """Return what the last fit released, by the names and units of the columns, and the names of the classes."""
        model = super().to_model()
        negative, positive = (str(name) for name in self.classes_)
        column = "label" if self._schema.label is None else self._schema.label.column
        label = Label(column=column, positive=(positive,), negative=(negative,))
        table = model.table.model_copy(update={"label": label})
        return model.model_copy(update={"table": table, "classes": (negative, positive)})

    def _people(self, X: Any, y: Any) -> polars.DataFrame:
        """Read the curator's people, and settle the classes."""
        given = self._given(X, y, reset=True)
        label = self._schema.label if y is None else None
        self._classes = public_classes(given.target, self.classes, label, self._schema.layout)
        self._read_off = self.classes is None and label is None
        return self._classes.marked(given)

    def _others(self, others: Any, y: Any, name: str) -> polars.DataFrame:
        """Read other people, (X, y) or X alone where y names a column or the schema a label."""
        return self._classes.marked(self._given(*labelled(others, y, name), reset=False))

    def _described(self, file: str) -> TableSource:
        """Return the description of a file of people with their classes."""
        return described(self._schema, file)

    def _assumptions(self) -> tuple[str, ...]:
        told = super()._assumptions()
        return (*told, "the names of the classes, as they were read off y") if self._read_off else told

    def __sklearn_tags__(self) -> Any:
        """Say that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
