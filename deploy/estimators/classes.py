"""The two classes of a classifier: public names, and which of them each person has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from common.arrays import AnyArray
from common.errors import BadFit
from common.tables import Label
from deploy.estimators.base import Given
from deploy.estimators.schema import LABEL


@dataclass(frozen=True, eq=False)
class Classes:
    """Two classes.

    Attributes
    ----------
    names
        Shape (2,): the negative and the positive one.
    negative, positive
        The values that mean each.
    """

    names: AnyArray
    negative: AnyArray
    positive: AnyArray

    def marked(self, given: Given) -> polars.DataFrame:
        """Return people with their classes as the parties read them.

        Raises
        ------
        BadFit
            If somebody has another class; says how many, never which.
        """
        if LABEL in given.frame.columns:
            raise BadFit(f"a column is called {LABEL!r}, the name under which the classes travel: rename it")
        positive = np.isin(given.target, self.positive)
        strange = np.count_nonzero(~positive & ~np.isin(given.target, self.negative))
        if strange:
            raise BadFit(
                f"{strange} of {len(positive)} people have none of the two classes: leave them out, or give classes="
            )
        texts = np.where(positive, "positive", "negative").tolist()
        return given.frame.with_columns(polars.Series(LABEL, texts, polars.String))


def public_classes(target: AnyArray, classes: Any, label: Label | None) -> Classes:
    """Return the classes as declared; where nothing declares them, the two values that ``target`` has.

    Parameters
    ----------
    target
        Shape (n,).
    classes
        Two values, the second the positive one; or None.
    label
        Which texts mean which; or None.

    Raises
    ------
    BadFit
        If there are not two.
    ValueError
        scikit-learn's, if ``target`` is not about classes at all.
    """
    if target.dtype == object and any(value is None for value in target):
        raise BadFit("y has missing values: leave these people out")
    if classes is not None:
        declared = np.asarray(classes)
        if declared.shape != (2,) or declared[0] == declared[1]:
            raise BadFit(f"classes must be two different values, found {classes!r}")
        return Classes(declared, declared[:1], declared[1:])
    if label is not None:
        negative, positive = np.asarray(label.negative), np.asarray(label.positive)
        return Classes(np.asarray([label.negative[0], label.positive[0]]), negative, positive)
    check_classification_targets(target)
    found = np.unique(target)
    if len(found) == 1:
        raise BadFit(f"y has one class only: two are needed (n_samples={len(target)}); give classes= to name both")
    if len(found) > 2:
        kind = type_of_target(target)
        raise BadFit(f"Only binary classification is supported. The type of the target is {kind}.")
    return Classes(found, found[:1], found[1:])
