"""The two public classes of a classifier, and what classifiers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadFit
from common.data.files import canonical_texts
from common.data.spelling import NoText, canonical_text, look_alikes, matching, plain_text
from common.data.tables import Label, Layout, TableSource
from common.models.model import Model
from tandem.estimators.base import FitPeople, HybridEstimator
from tandem.estimators.frames import LABEL, described


@dataclass(frozen=True, eq=False)
class ClassNames:
    """Two classes: ``names``, shape (2,), the negative one first.

    ``negative`` and ``positive`` are the canonical texts that mean each (:mod:`common.data.spelling`). In their
    place numbers ``above`` one mean the positive class, all others the negative.
    """

    names: AnyArray
    negative: Sequence[str]
    positive: Sequence[str]
    above: float | None = None

    def marked(self, given: FitPeople) -> polars.DataFrame:
        """Return people with their classes as the parties read them.

        BadFit says how many have none of the two, never what they have.
        """
        frame, target = given
        if LABEL in frame.columns:
            raise BadFit(f"a column is called {LABEL!r}, the name under which the classes travel: rename it")
        texts = canonical_texts(target, "y").fill_null("")
        if self.above is None:
            positive = texts.is_in(self.positive).to_numpy()
            strange = ~positive & ~texts.is_in(self.negative).to_numpy()
        else:
            numbers = texts.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
            positive, strange = numbers > self.above, ~np.isfinite(numbers)
        if strange.any():
            raise BadFit(
                f"{np.count_nonzero(strange)} of {len(positive)} people have none of the two classes: leave them out, "
                "or declare others"
            )
        marks = np.where(positive, "positive", "negative").tolist()
        return frame.with_columns(polars.Series(LABEL, marks, polars.String))


def public_classes(target: AnyArray, classes: Any, label: Label | None, layout: Layout) -> ClassNames:
    """Return the classes as declared; where nothing declares them, the two values that ``target`` has, shape (n,).

    ``classes`` are two names, the second of the positive class; ``label`` says which values mean which, and then
    ``classes`` are names for them. scikit-learn's ValueError if the target is not about classes at all, BadFit if there
    are not two.
    """
    names = None if classes is None else _declared(classes)
    if label is not None and label.above is not None:
        return ClassNames(np.array([False, True]) if names is None else names, (), (), label.above)
    if label is not None:
        own = np.asarray([label.negative[0], label.positive[0]])
        positive, negative = label.texts(layout)
        return ClassNames(own if names is None else names, negative, positive)
    if names is None:
        names = _found(target)
    negative, positive = matching([[canonical_text(name)] for name in names])
    return ClassNames(names, negative, positive)


def _declared(classes: Any) -> AnyArray:
    try:
        declared = np.asarray(classes)
        alike = declared.shape != (2,) or look_alikes([[plain_text(name)] for name in declared]) is not None
    except (NoText, ValueError):
        alike = True
    if alike:
        raise BadFit(f"classes must be two different values, found {classes!r}")
    return declared


def _found(target: AnyArray) -> AnyArray:
    texts = canonical_texts(target, "y")
    if texts.null_count():
        raise BadFit("y has missing values: leave these people out")
    values = np.array(target.tolist()) if target.dtype == object else target
    check_classification_targets(values)
    # Of the spellings of one value, the first in order is its name.
    first = {canonical_text(value): value for value in reversed(np.unique(values).tolist())}
    found = np.array(list(reversed(first.values())), dtype=values.dtype)
    if len(found) == 1:
        raise BadFit(
            f"y has one class only: two are needed (n_samples={len(target)}); give the option classes to name both"
        )
    if len(found) > 2:
        raise BadFit(f"Only binary classification is supported. The type of the target is {type_of_target(values)}.")
    return found


class BinaryClassifier(ClassifierMixin, HybridEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the classifiers; not one itself."""

    classes_: AnyArray
    _classes: ClassNames
    _read_off: bool

    def predict(self, X: Any) -> AnyArray:
        """Return the class of each of n people, shape (n,)."""
        records = self._encoded(X)  # which refuses an estimator that was not fitted
        return self.classes_[(self.hypothesis_.predict(records) > 0).astype(np.int64)]

    def decision_function(self, X: Any) -> AnyArray:
        """Return how far each person is on the side of ``classes_[1]``, shape (n,); above 0 means that class.

        Where the answer is a constant, people are ordered by the calibrated probability, if there is one.
        """
        records = self._encoded(X)
        return self.to_model().ranks(records)

    @property
    def predict_proba(self) -> Callable[[Any], Floats]:
        """Return the probabilities of both classes of each of n people, shape (n, 2), in the order of ``classes_``.

        They are those of a logistic curve of the model's score that was fitted to the agents' answers. Where no agents
        calibrated a score there is no such method.
        """
        if self.to_model().calibrated is None:
            raise AttributeError(
                "no predict_proba: no agents calibrated the model's score, whose order alone has a meaning "
                "(decision_function). More people of the population do, or protocol='portfolio'"
            )
        return self._probabilities

    def _probabilities(self, X: Any) -> Floats:
        positive = self.to_model().probabilities(self._encoded(X))
        return np.stack([1.0 - positive, positive], axis=1)

    def to_model(self) -> Model:
        model = super().to_model()
        negative, positive = (str(name) for name in self.classes_)
        column = "label" if self._schema.label is None else self._schema.label.column
        label = Label(column=column, positive=(positive,), negative=(negative,))
        table = model.table.model_copy(update={"label": label})
        return model.model_copy(update={"table": table, "classes": (negative, positive)})

    def _people(self, X: Any, y: Any) -> polars.DataFrame:
        given = self._given(X, y, reset=True)
        label = self._schema.label if y is None else None
        classes = self._value("classes")
        self._classes = public_classes(given[1], classes, label, self._schema.layout)
        self._read_off = classes is None and label is None
        return self._marked(given)

    def _marked(self, given: FitPeople) -> polars.DataFrame:
        return self._classes.marked(given)

    def _released(self) -> None:
        self.classes_ = self._classes.names

    def _described(self, file: str) -> TableSource:
        return described(self._schema, file)

    def _assumptions(self) -> tuple[str, ...]:
        stated = super()._assumptions()
        return (*stated, "the names of the classes, as they were read off y") if self._read_off else stated

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
