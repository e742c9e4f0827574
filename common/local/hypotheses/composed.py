"""Hypotheses composed of others: about another label or several classes, or on another scale; and tasks."""

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Indices, Labels, Singles
from common.core.values import Value
from common.local.hypotheses.hypothesis import GREATEST, HYPOTHESES, PLANE, Hypothesis, Linear, PlainHypothesis, Weight
from common.local.hypotheses.rules import MAX_NODES, Trees
from common.local.naming import Names
from common.local.records import Groups, Records, column_labels, group_of, number_of
from common.numerics.elementary import softmax

_PLANE = {**PLANE, "threshold": 0.25}


@HYPOTHESES.register("relabelled")
class Relabelled(Hypothesis):
    """``hypothesis``, compared with the label in a column of the features, which is +1 where the column is above 1/2.

    A record with several labels stores the others as features, after those that hypotheses read. A loss on another
    label is then a public function of the record like any other loss, and everything that holds for losses holds.
    """

    nests: ClassVar[bool] = True
    kind: Literal["relabelled"] = "relabelled"
    column: int = Field(ge=0, lt=1 << 16)
    hypothesis: PlainHypothesis
    examples: ClassVar = ({"column": 4, "hypothesis": _PLANE},)

    @model_validator(mode="after")
    def _target_is_unseen(self) -> Self:
        if self.hypothesis.min_features > self.column:
            raise ValueError(
                f"the label is feature {self.column}: a hypothesis about it must look at features before it only, this "
                f"one needs {self.hypothesis.min_features}"
            )
        return self

    @property
    def min_features(self) -> int:
        return self.column + 1

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.hypothesis.inputs

    def target(self, names: Names) -> str:
        return f"whether {names.true(self.column, 0.5)}"

    def labels(self, records: Records) -> Labels:
        return column_labels(records, self.column)

    def margins(self, features: AnyArray) -> Singles:
        return self.hypothesis.margins(features[:, : self.column])


class Task(Value):
    """Which label to predict, and from which features: a public view of a record.

    A view is a function of one record, so neighbouring samples remain neighbours in it, for any later computation.

    Attributes:
        features: Number of features to predict from: the first ones.
        label: The later feature that is the label (+1 if it is above 1/2); None: the record's own label.
    """

    features: int = Field(ge=1, le=1 << 16)
    label: int | None = Field(default=None, ge=1, lt=1 << 16)

    @model_validator(mode="after")
    def _target_is_unseen(self) -> Self:
        if self.label is not None and self.label < self.features:
            raise ValueError(f"label = {self.label} is among the first {self.features} features: a model would see it")
        return self

    @property
    def min_features(self) -> int:
        return self.features if self.label is None else self.label + 1

    def of(self, records: Records) -> Records:
        """Return the records as this task sees them (a copy)."""
        labels = records.labels if self.label is None else column_labels(records, self.label)
        return Records(np.ascontiguousarray(records.features[:, : self.features]), labels)

    def about(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return a hypothesis that was learned for this task as a hypothesis about whole records.

        BadMessage if it reads the label, or is of a kind that not every party accepts.
        """
        wire = {"column": self.label, "hypothesis": hypothesis}
        return hypothesis if self.label is None else Relabelled.parse(wire)


MAX_CLASSES = 64


@HYPOTHESES.register("argmax")
class Argmax(Hypothesis):
    """Predict the class whose hypothesis has the greatest score, and err if it is not the class of the record.

    A record's own class is stored in C features, one per class, from ``first`` on: it is class c iff feature first + c
    is above 1/2 and none of the others is. A record with several classes, or none, always counts as a mistake.

    As a classifier into -1 and +1, it predicts +1 if the predicted class is the record's own, and all true labels are
    +1. So every loss is the multi-class 0/1 loss, a function of one record like any other.

    Attributes:
        hypotheses: One per class, 2 <= C <= 64; they read only features before ``first``. Together they have at most
            as many tree nodes as one hypothesis may have, so a row takes no more work.
    """

    nests: ClassVar[bool] = True
    kind: Literal["argmax"] = "argmax"
    first: int = Field(ge=0, lt=1 << 16)
    hypotheses: tuple[PlainHypothesis, ...] = Field(min_length=2, max_length=MAX_CLASSES)
    examples: ClassVar = ({"first": 3, "hypotheses": [{"kind": "linear", "weights": [0.0], "threshold": 0.0}, _PLANE]},)

    @model_validator(mode="after")
    def _target_is_unseen(self) -> Self:
        needed = max(hypothesis.min_features for hypothesis in self.hypotheses)
        if needed > self.first:
            raise ValueError(
                f"the classes are features {self.first} and after: their hypotheses must look at features before them "
                f"only, one needs {needed}"
            )
        nodes = sum(len(hypothesis.feature) for hypothesis in self.hypotheses if isinstance(hypothesis, Trees))
        if nodes > MAX_NODES:
            raise ValueError(f"all trees together have at most {MAX_NODES} nodes, found {nodes}")
        return self

    @property
    def min_features(self) -> int:
        return self.first + len(self.hypotheses)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(sorted({feature for hypothesis in self.hypotheses for feature in hypothesis.inputs}))

    def target(self, names: Names) -> str:
        classes = range(self.first, self.first + len(self.hypotheses))
        return f"which one of these is true ({names.conditions(classes)})"

    @classmethod
    def constant(cls, first: int, count: int, index: int) -> Self:
        """Return the hypothesis that predicts class ``index`` of ``count`` for every record."""
        scores = (Linear(weights=(0.0,), threshold=-1.0 if c == index else 0.0) for c in range(count))
        return cls(first=first, hypotheses=tuple(scores))

    @property
    def always(self) -> int | None:
        """The class that it predicts for every record, if its scores do not depend on features; else None."""
        constants = [
            -scorer.threshold for scorer in self.hypotheses if isinstance(scorer, Linear) and not any(scorer.weights)
        ]
        return int(np.argmax(constants)) if len(constants) == len(self.hypotheses) else None

    def _scores(self, features: AnyArray) -> Floats:
        inputs = features[:, : self.first]
        with np.errstate(all="ignore"):
            scores = np.stack([hypothesis.scores(inputs) for hypothesis in self.hypotheses], axis=1)
        return np.where(np.isnan(scores), -np.inf, scores)

    def scores_by_class(self, features: AnyArray) -> Floats:
        """Return each row's score of each class, shape (n, C), finite; NaN counts as the least score."""
        return np.clip(self._scores(features), -GREATEST, GREATEST)

    def probabilities(self, features: AnyArray) -> Floats:
        """Return the softmax of the scores, shape (n, C): the classes' probabilities, if scores are log odds."""
        return softmax(self.scores_by_class(features))

    def classes(self, features: AnyArray) -> Indices:
        """Return the predicted classes, shape (n,), int64; a NaN score is below all others."""
        return np.asarray(self._scores(features).argmax(axis=1), dtype=np.int64)

    def positive(self, features: AnyArray) -> AnyArray:
        return np.equal(self.classes(features), column_classes(features, self.first, len(self.hypotheses)))

    def labels(self, records: Records) -> Labels:
        return np.ones(len(records), dtype=np.int8)


def column_classes(features: AnyArray, first: int, count: int) -> Indices:
    """Return the class stored in ``count`` columns, shape (n,), int64; -1 if several are above 1/2, or none."""
    above = features[:, first : first + count] > 0.5
    return np.where(np.count_nonzero(above, axis=1) == 1, above.argmax(axis=1), -1).astype(np.int64)


@HYPOTHESES.register("recalibrated")
class Recalibrated(Hypothesis):
    """h(x) = +1 if ``slope`` * score(x) + ``intercepts[group(x)]`` > 0 else -1.

    This recalibrates a released model without access to any record: agents answer how their labels depend on its
    scores, and a logistic fit to the answers gives the slope and one intercept per group (Platt 1999). The margin is
    then the log odds of +1.
    """

    nests: ClassVar[bool] = True
    kind: Literal["recalibrated"] = "recalibrated"
    hypothesis: PlainHypothesis
    slope: float = Field(gt=0, le=1e6)
    intercepts: Annotated[tuple[Weight, ...], Field(min_length=1)]
    groups: Groups = ()
    examples: ClassVar = (
        {"hypothesis": _PLANE, "slope": 0.5, "intercepts": [0.1]},
        {"hypothesis": _PLANE, "slope": 2.0, "intercepts": [0.1, -0.5, 0.0], "groups": [1, 4]},
    )

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if len(self.intercepts) != number_of(self.groups):
            raise ValueError(f"{number_of(self.groups)} groups need as many intercepts, found {len(self.intercepts)}")
        return self

    @property
    def min_features(self) -> int:
        return max([self.hypothesis.min_features, *(group + 1 for group in self.groups)])

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(sorted({*self.hypothesis.inputs, *self.groups}))

    def margins(self, features: AnyArray) -> Singles:
        intercepts = np.array(self.intercepts)[group_of(features, self.groups)]
        margins = np.clip(self.slope * self.hypothesis.scores(features) + intercepts, -GREATEST, GREATEST)
        return np.asarray(margins, dtype=np.float32)


def recalibrated(
    hypothesis: Hypothesis, slope: float, intercepts: tuple[float, ...], groups: tuple[int, ...] = ()
) -> Hypothesis:
    """Recalibrate a hypothesis; a half-space without groups remains one. BadMessage if it cannot be part of another."""
    if isinstance(hypothesis, Linear) and not groups:
        fields = {"weights": tuple(slope * weight for weight in hypothesis.weights)}
        return Linear.parse({**fields, "threshold": slope * hypothesis.threshold - intercepts[0]})
    return Recalibrated.parse({"hypothesis": hypothesis, "slope": slope, "intercepts": intercepts, "groups": groups})


def above(hypothesis: Hypothesis, odds: float) -> Hypothesis:
    """Return the hypothesis that predicts +1 if the score of ``hypothesis`` is above ``odds``.

    BadMessage if the hypothesis cannot be part of another one, or its numbers become too large.
    """
    if isinstance(hypothesis, Recalibrated):
        lower = tuple(intercept - odds for intercept in hypothesis.intercepts)
        return Recalibrated.parse({**hypothesis.wire(), "intercepts": lower})
    return recalibrated(hypothesis, 1.0, (-odds,))
