"""The public classes of a classifier, two or several, and the common base of classifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.data.columns import canonical_texts
from common.data.spelling import NoText, canonical, canonical_text, look_alikes, matching, plain_text
from common.data.tables import Category, Label, Layout, TableSource
from common.local.hypotheses.composed import Argmax
from common.models.model import Model
from tandem.estimators.base import FitPeople, HybridEstimator
from tandem.estimators.frames import CLASS, CLASSES, LABEL, as_output, label_of, table_source, target_array

_DECLARE = "declare others: options={'classes': [...]}"


@dataclass(frozen=True, eq=False)
class ClassNames:
    """Two classes: ``names``, shape (2,), the negative one first.

    ``negative`` and ``positive`` are the canonical texts that mean each (:mod:`common.data.spelling`). Alternatively,
    numbers above the threshold ``above`` mean the positive class, all others the negative.
    ``of_schema``: a schema's label declares them. ``label`` is their encoding for the parties.
    """

    names: AnyArray
    negative: Sequence[str]
    positive: Sequence[str]
    above: float | None = None
    of_schema: bool = False
    label: Label = CLASSES

    def with_classes(self, people: FitPeople) -> polars.DataFrame:
        """Return people with their classes as the parties read them.

        BadFit if some have neither class; it states how many, never their values.
        """
        frame, target = people
        if LABEL in frame.columns:
            raise BadFit(f"a column is called {LABEL!r}, the name under which the classes travel: rename it")
        texts = canonical_texts(target, "y").fill_null("")
        if self.above is None:
            positive = texts.is_in(self.positive).to_numpy()
            invalid = ~positive & ~texts.is_in(self.negative).to_numpy()
        else:
            numbers = texts.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy()
            positive, invalid = numbers > self.above, ~np.isfinite(numbers)
        if invalid.any():
            advice = "list what they have in the schema's label" if self.of_schema else _DECLARE
            raise BadFit(
                f"{np.count_nonzero(invalid)} of {len(positive)} people have none of the two classes: leave them out, "
                f"or {advice}"
            )
        label = self.label
        marks = np.where(positive, canonical(label.positive[0]), canonical(label.negative[0])).tolist()
        return frame.with_columns(polars.Series(label.column, marks, polars.String))

    @property
    def texts(self) -> tuple[Sequence[str], ...]:
        """The canonical texts that mean each class; empty for classes that are given by numbers."""
        return self.negative, self.positive


@dataclass(frozen=True, eq=False)
class SeveralNames:
    """C classes, more than two: ``names``, shape (C,), and the canonical ``texts`` that mean each."""

    names: AnyArray
    texts: tuple[tuple[str, ...], ...]

    def with_classes(self, people: FitPeople) -> polars.DataFrame:
        """Return people with their classes as the parties read them; BadFit as for :meth:`ClassNames.with_classes`."""
        frame, target = people
        clashes = {LABEL, CLASS} & set(frame.columns)
        if clashes:
            raise BadFit(f"a column is called {clashes.pop()!r}, a name under which the classes travel: rename it")
        first = {text: texts[0] for texts in self.texts for text in texts}
        marks = [first.get(text or "") for text in canonical_texts(target, "y").to_list()]
        invalid = sum(mark is None for mark in marks)
        if invalid:
            raise BadFit(
                f"{invalid} of {len(marks)} people have none of the {len(self.names)} classes: leave them out, or "
                f"{_DECLARE}"
            )
        # A table must have a label; here it is not used.
        return frame.with_columns(polars.Series(CLASS, marks, polars.String), polars.lit("positive").alias(LABEL))

    @property
    def feature(self) -> Category:
        """The class as one 0/1 column each."""
        return Category(column=CLASS, values=tuple(texts[0] for texts in self.texts))


MOST_CLASSES = 10
_SEVERAL = (
    "Several classes are for TransferClassifier with learner='discriminant' or none, and no protocol that reweighs"
)


def public_classes(
    target: AnyArray, classes: Any, label: Label | None, layout: Layout, most: int = 2
) -> ClassNames | SeveralNames:
    """Return the declared classes; if none are declared, the values that occur in ``target``, shape (n,).

    ``classes`` are two names, the second for the positive class, or up to ``most``; if ``label`` states which values
    mean which of two classes, ``classes`` are names for them. scikit-learn's ValueError if the target does not consist
    of classes, BadFit if their number is not allowed.
    """
    names = None if classes is None else _check_declared(classes, 2 if label is not None else most)
    if label is not None and label.above is not None:
        return ClassNames(np.array([False, True]) if names is None else names, (), (), label.above, True)
    if label is not None:
        default = np.asarray([label.negative[0], label.positive[0]])
        positive, negative = label.texts(layout)
        return ClassNames(default if names is None else names, negative, positive, of_schema=True)
    if names is None:
        names = _occurring_classes(target, most)
    texts = matching([[canonical_text(name)] for name in names])
    if len(names) > 2:
        return SeveralNames(names, tuple(tuple(meaning) for meaning in texts))
    negative, positive = texts
    return ClassNames(names, negative, positive)


def _check_declared(classes: Any, most: int) -> AnyArray:
    try:
        declared = np.asarray(classes)
        invalid = (
            declared.ndim != 1
            or not 2 <= len(declared) <= most
            or look_alikes([[plain_text(name)] for name in declared]) is not None
        )
    except (NoText, ValueError):
        invalid = True
    if invalid:
        many = f"two different values. {_SEVERAL}" if most == 2 else f"two different values, or up to {most}"
        raise BadFit(f"classes must be {many}; found {classes!r}")
    return declared


def _occurring_classes(target: AnyArray, most: int) -> AnyArray:
    texts = canonical_texts(target, "y")
    if texts.null_count():
        raise BadFit("y has missing values: leave these people out")
    values = np.array(target.tolist()) if target.dtype == object else target
    check_classification_targets(values)
    # If a value has several spellings, the first in order is its name.
    first = {canonical_text(value): value for value in reversed(np.unique(values).tolist())}
    names = np.array(list(reversed(first.values())), dtype=values.dtype)
    if len(names) == 1:
        raise BadFit(
            f"y has one class only: two are needed (n_samples={len(target)}); give the option classes to name both"
        )
    if most < len(names) and most > 2:
        raise BadFit(f"y has {len(names)} classes, at most {most} are possible: put some of them together")
    if len(names) > most:
        raise BadFit(
            f"Only binary classification is supported. The type of the target is {type_of_target(values)}. {_SEVERAL}"
        )
    return names


class HybridClassifier(ClassifierMixin, HybridEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the classifiers; not one itself."""

    classes_: AnyArray
    _classes: ClassNames | SeveralNames
    _read_off: bool

    @property
    def _most(self) -> int:
        return 2

    def predict(self, X: Any) -> Any:
        """Return the class of each of n people, shape (n,)."""
        records = self._encoded(X)  # raises if the estimator was not fitted
        if isinstance(self.hypothesis_, Argmax):
            indices = self.hypothesis_.classes(records)
        else:
            indices = (self.hypothesis_.predict(records) > 0).astype(np.int64)
        return as_output(self._output, X, self.classes_[indices])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on n people with the classes ``y``, shape (n,), in any type and spelling.

        A value that means no class counts as a mistake. BadFit if a value is missing.
        """
        y_pred = np.asarray(self.predict(X))
        texts = canonical_texts(column_or_1d(target_array(y)), "y")
        if texts.null_count():
            raise BadFit("y has missing values: leave these people out")
        names = [(canonical_text(name),) for name in self.classes_]
        by_class = (matching(names), self._classes.texts, names)  # if they differ, the last one counts
        meaning = {text: index for classes in by_class for index, means in enumerate(classes) for text in means}
        truth, predicted = ([meaning.get(text, -1) for text in column] for column in (texts, canonical_texts(y_pred)))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def decision_function(self, X: Any) -> Any:
        """Return the score of each person for ``classes_[1]``, shape (n,); above 0 means that class.

        If the answer is a constant, people are ordered by the calibrated probability, if there is one. For C > 2
        classes, return the scores of each class, shape (n, C).
        """
        records = self._encoded(X)
        if isinstance(self.hypothesis_, Argmax):
            return as_output(self._output, X, self.hypothesis_.scores_by_class(records), self.classes_)
        return as_output(self._output, X, self.to_model().ranks(records))

    @property
    def predict_proba(self) -> Callable[[Any], Any]:
        """Return the probabilities of the C classes of each of n people, shape (n, C), in the order of ``classes_``.

        They come from a logistic curve of the model's score that was fitted to the agents' answers. If no agents
        calibrated a score, there is no such method.
        """
        if self.to_model().calibrated is None:
            raise AttributeError(
                "no predict_proba: no agents calibrated the model's score, whose order alone has a meaning "
                "(decision_function). More people of the population do, or protocol='portfolio'"
            )
        return self._probabilities

    def _probabilities(self, X: Any) -> Any:
        return as_output(self._output, X, self.to_model().probabilities_by_class(self._encoded(X)), self.classes_)

    def to_model(self) -> Model:
        model = super().to_model()
        column = "label" if self._schema.label is None else self._schema.label.column
        if isinstance(self._classes, SeveralNames):
            feature = Category(column=column, values=tuple(str(name) for name in self.classes_))
            table = model.table.model_copy(update={"label": None, "features": (*model.table.features[:-1], feature)})
            return model.model_copy(update={"table": table})
        negative, positive = (str(name) for name in self.classes_)
        label = Label(column=column, positive=(positive,), negative=(negative,))
        table = model.table.model_copy(update={"label": label})
        return model.model_copy(update={"table": table, "classes": (negative, positive)})

    def _people(self, X: Any, y: Any) -> polars.DataFrame:
        people = self._read_people(X, y, reset=True)
        label = self._schema.label if y is None else None
        classes = self._value("classes")
        class_names = public_classes(people[1], classes, label, self._schema.layout, self._most)
        if isinstance(class_names, ClassNames):
            class_names = replace(class_names, label=label_of(class_names.names, self._schema))
        self._classes = class_names
        self._read_off = classes is None and label is None
        return self._with_targets(people)

    def _with_targets(self, people: FitPeople) -> polars.DataFrame:
        return self._classes.with_classes(people)

    def _set_released(self) -> None:
        self.classes_ = self._classes.names

    def _table_source(self, file: str) -> TableSource:
        if isinstance(self._classes, SeveralNames):
            return table_source(self._schema, file, self._classes.feature)
        return table_source(self._schema, file, label=self._classes.label)

    def _assumptions(self) -> tuple[str, ...]:
        assumptions = super()._assumptions()
        return (*assumptions, "the names of the classes, as they were read off y") if self._read_off else assumptions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._most > 2
        return tags
