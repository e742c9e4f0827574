"""The two classes of a classifier: public names, and which of them each person has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadFit
from common.people.tables import Label
from tandem.estimators.base import Given
from tandem.estimators.shared.schema import LABEL


@dataclass(frozen=True, eq=False)
class Classes:
    """Two classes.

    Attributes
    ----------
    names
        Shape (2,): the negative and the positive one.
    negative, positive
        The values that mean each.
    above
        In their place: numbers above this one mean the positive class, all others the negative.
    """

    names: AnyArray
    negative: AnyArray
    positive: AnyArray
    above: float | None = None

    def marked(self, given: Given) -> polars.DataFrame:
        """Return people with their classes as the parties read them.

        Raises
        ------
        BadFit
            If somebody has none of the two; says how many, never what they have.
        """
        if LABEL in given.frame.columns:
            raise BadFit(f"a column is called {LABEL!r}, the name under which the classes travel: rename it")
        if self.above is None:
            positive = np.isin(given.target, self.positive)
            strange = ~positive & ~np.isin(given.target, self.negative)
        else:
            numbers = _numbers(given.target)
            positive, strange = numbers > self.above, np.isnan(numbers)
        if strange.any():
            raise BadFit(
                f"{np.count_nonzero(strange)} of {len(positive)} people have none of the two classes: leave them out, "
                "or declare others"
            )
        texts = np.where(positive, "positive", "negative").tolist()
        return given.frame.with_columns(polars.Series(LABEL, texts, polars.String))

    @staticmethod
    def unmarked(frame: polars.DataFrame) -> polars.DataFrame:
        """Return people without known classes as the parties read them."""
        return frame.with_columns(polars.lit("positive").alias(LABEL))


def public_classes(target: AnyArray, classes: Any, label: Label | None) -> Classes:
    """Return the classes as declared; where nothing declares them, the two values that ``target`` has.

    Parameters
    ----------
    target
        Shape (n,).
    classes
        Two names, the second of the positive class; or None.
    label
        Which values mean which, and then ``classes`` are names for them; or None.

    Raises
    ------
    BadFit
        If there are not two.
    ValueError
        scikit-learn's, if ``target`` is not about classes at all.
    """
    names = None if classes is None else _declared(classes)
    if label is not None and label.above is not None:
        return Classes(np.array([False, True]) if names is None else names, np.array([]), np.array([]), label.above)
    if label is not None:
        own = np.asarray([label.negative[0], label.positive[0]])
        return Classes(own if names is None else names, np.asarray(label.negative), np.asarray(label.positive))
    if names is None:
        names = _found(target)
    return Classes(names, names[:1], names[1:])


def _declared(classes: Any) -> AnyArray:
    declared = np.asarray(classes)
    if declared.shape != (2,) or declared[0] == declared[1]:
        raise BadFit(f"classes must be two different values, found {classes!r}")
    return declared


def _found(target: AnyArray) -> AnyArray:
    if target.dtype == object and any(value is None for value in target):
        raise BadFit("y has missing values: leave these people out")
    check_classification_targets(target)
    found = np.unique(target)
    if len(found) == 1:
        raise BadFit(f"y has one class only: two are needed (n_samples={len(target)}); give classes= to name both")
    if len(found) > 2:
        kind = type_of_target(target)
        raise BadFit(f"Only binary classification is supported. The type of the target is {kind}.")
    return found


def _numbers(target: AnyArray) -> Floats:
    """Return numbers, NaN where a text is none."""
    if target.dtype.kind in "biuf":
        return target.astype(np.float64)
    texts = polars.Series([None if value is None else str(value) for value in target], dtype=polars.String)
    return np.asarray(texts.cast(polars.Float64, strict=False).fill_null(np.nan).to_numpy())
