"""Any classifier of scikit-learn whose model can be written down as data; not private."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from common.arrays import AnyArray, Floats
from common.errors import BadScenario
from common.hypotheses.base import Hypothesis
from common.hypotheses.constant import Constant
from common.hypotheses.linear import Linear
from common.hypotheses.trees import LEAF, Trees
from common.privacy.events import Event, NonPrivate
from common.randomness import RandomSource
from common.records import Records
from common.values import explain
from curator.learners.base import LEARNERS, Learner
from curator.sampling import Sampler

LEAST_AGREEMENT = 0.999
"""Share of the draws on which the hypothesis must predict as the fitted model does (ties may differ)."""


@cache
def classifiers() -> dict[str, type[Any]]:
    """Return scikit-learn's classifiers by name; nothing else can be named in a scenario."""
    from sklearn.utils import all_estimators  # only who uses it waits for it

    return dict(all_estimators("classifier"))


@LEARNERS.register("scikit")
class Scikit(Learner):
    """A scikit-learn classifier, trained on m draws, as a half-space, trees or a constant.

    Models travel as data, never as pickles. So it takes those with a linear decision function
    (``LogisticRegression``, ``LinearSVC``, ``Perceptron``, ``RidgeClassifier``, ``SGDClassifier``,
    ``LinearDiscriminantAnalysis``, ``SVC`` with a linear kernel, ...) and those made of trees
    (``DecisionTreeClassifier``, ``RandomForestClassifier``, ``ExtraTreesClassifier``,
    ``GradientBoostingClassifier``, ``HistGradientBoostingClassifier``, ``AdaBoostClassifier``,
    ``BaggingClassifier``, ...), and refuses the others by name.

    Attributes
    ----------
    classifier
        The class's name.
    parameters
        Its constructor's arguments: numbers, strings, booleans and null only. ``random_state`` comes from
        the source.
    draws
        m.
    """

    name: Literal["scikit"] = "scikit"
    classifier: str = Field(max_length=64)
    parameters: dict[str, bool | int | float | str | None] = Field(default_factory=dict)
    draws: int = Field(ge=2, le=10**7)

    @field_validator("classifier")
    @classmethod
    def _known(cls, classifier: str) -> str:
        if classifier not in classifiers():
            known = ", ".join(sorted(classifiers()))
            raise ValueError(f"scikit-learn has no such classifier; it has: {known}")
        return classifier

    @model_validator(mode="after")
    def _has_parameters(self) -> Scikit:
        self._model(0)
        return self

    def _model(self, seed: int) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what scikit-learn deprecates still works
                model = classifiers()[self.classifier](**self.parameters)
        except TypeError as error:
            raise ValueError(f"{self.classifier}: {error}") from None
        if "random_state" in model.get_params() and "random_state" not in self.parameters:
            model.set_params(random_state=seed)
        return model

    def event(self, sampling: float) -> Event:
        """No guarantee at all."""
        return NonPrivate()

    def learn(self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None) -> Hypothesis:
        """Fit on m fresh draws; if all have one label, that label is the hypothesis.

        Raises
        ------
        BadScenario
            If the classifier refuses its parameters or the draws, or its model cannot be written down as
            data.
        """
        records = sampler.draws(self.draws, source.derive("draws"))
        if records.labels.min() == records.labels.max():
            return Constant(label=1 if records.labels[0] > 0 else -1)
        model = self._model(int(source.derive("model").integers(1 << 32, 1)[0]))
        try:
            with warnings.catch_warnings():
                # Not converged, collinear, ...: the test on people decides what the model is worth.
                warnings.simplefilter("ignore")
                model.fit(records.features, records.labels)
        except (ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise BadScenario(f"{self.classifier} cannot learn with {self.parameters}: {reason}") from None
        return self._checked(model, records)

    def _checked(self, model: Any, records: Records) -> Hypothesis:
        try:
            hypothesis = as_hypothesis(model, records.features[:1])
        except ValidationError as error:
            raise BadScenario(f"{self.classifier}: its model is too large: {explain(error)}") from None
        if hypothesis is None:
            raise BadScenario(
                f"{self.classifier} with {self.parameters} has no model that can be sent as data; "
                "take one with a linear decision function, or made of trees"
            )
        agreement = float(np.mean(hypothesis.predict(records.features) == model.predict(records.features)))
        if agreement < LEAST_AGREEMENT:
            raise BadScenario(
                f"{self.classifier}: as data its model agrees with itself on {agreement:.1%} of the draws only"
            )
        return hypothesis


def as_hypothesis(model: Any, example: AnyArray) -> Hypothesis | None:
    """Write a fitted binary classifier (classes -1 and +1) down as data, or return None if there is no way.

    Parameters
    ----------
    model
        Fitted.
    example
        Shape (1, d): where to read off the constant of a sum of trees.
    """
    kind = type(model).__name__
    if kind in ("DecisionTreeClassifier", "ExtraTreeClassifier"):
        return _forest([_votes(model)])
    if kind in ("RandomForestClassifier", "ExtraTreesClassifier"):
        return _forest([_votes(tree) for tree in model.estimators_])
    if kind == "BaggingClassifier" and all(hasattr(tree, "tree_") for tree in model.estimators_):
        pairs = zip(model.estimators_, model.estimators_features_, strict=True)
        return _forest([_votes(tree, features) for tree, features in pairs])
    if kind == "AdaBoostClassifier" and all(hasattr(tree, "tree_") for tree in model.estimators_):
        pairs = zip(model.estimators_, model.estimator_weights_, strict=True)
        return _forest([_scaled(_votes(tree), weight, rounded=True) for tree, weight in pairs])
    if kind == "GradientBoostingClassifier":
        rate = float(model.learning_rate)
        return _summed(model, [_scaled(_leaves(tree), rate) for tree in model.estimators_[:, 0]], example)
    if kind == "HistGradientBoostingClassifier":
        # The fitted trees have no public name in scikit-learn; the agreement on the draws guards this.
        return _summed(model, [_boosted(stage[0].nodes) for stage in model._predictors], example)
    if kind == "DummyClassifier":
        return Constant(label=1 if model.predict(example)[0] > 0 else -1)
    if not hasattr(model, "coef_"):
        return None
    weights = np.asarray(model.coef_, dtype=np.float64).ravel()
    return Linear(weights=tuple(weights.tolist()), threshold=-float(np.ravel(model.intercept_)[0]))


_Tree = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
"""One tree: feature, threshold or value, left, right; children counted from its root."""


def _leaves(tree: Any, features: AnyArray | None = None, values: Floats | None = None) -> _Tree:
    inner = tree.tree_
    leaf = inner.children_left < 0
    feature = np.where(leaf, LEAF, inner.feature)
    if features is not None:
        feature = np.where(leaf, LEAF, np.asarray(features)[feature])
    value = inner.value[:, 0, 0] if values is None else values
    return feature, np.where(leaf, value, inner.threshold), inner.children_left, inner.children_right


def _votes(tree: Any, features: AnyArray | None = None) -> _Tree:
    """Give each leaf its share of +1 less one half."""
    shares = tree.tree_.value[:, 0, :]
    positive = shares[:, list(tree.classes_).index(max(tree.classes_))] / shares.sum(axis=1)
    if len(tree.classes_) == 1:  # a bootstrap sample with one label only
        positive = np.full(len(shares), float(tree.classes_[0] > 0))
    return _leaves(tree, features, positive - 0.5)


def _scaled(tree: _Tree, factor: float, *, rounded: bool = False) -> _Tree:
    feature, threshold, left, right = tree
    value = np.where(threshold > 0, 1.0, -1.0) if rounded else threshold
    return feature, np.where(feature == LEAF, factor * value, threshold), left, right


def _boosted(nodes: AnyArray) -> _Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, LEAF, nodes[side].astype(np.int64)) for side in ("left", "right"))
    feature = np.where(leaf, LEAF, nodes["feature_idx"])
    return feature, np.where(leaf, nodes["value"], nodes["num_threshold"]), left, right


def _summed(model: Any, trees: list[_Tree], example: AnyArray) -> Trees:
    """Find the constant of a sum of trees: what its decision function says beyond them."""
    base = float(model.decision_function(example)[0] - _forest(trees).scores(example)[0])
    return _forest(trees, base)


def _forest(trees: list[_Tree], base: float = 0.0) -> Trees:
    sizes = [len(tree[0]) for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    feature, threshold = (np.concatenate([tree[k] for tree in trees]).tolist() for k in (0, 1))
    placed = list(zip(trees, roots, strict=True))
    left, right = (
        np.concatenate([np.where(tree[k] < 0, LEAF, tree[k] + root) for tree, root in placed]).tolist() for k in (2, 3)
    )
    return Trees(
        roots=tuple(roots.tolist()),
        feature=tuple(feature),
        threshold=tuple(threshold),
        left=tuple(left),
        right=tuple(right),
        base=base,
    )
