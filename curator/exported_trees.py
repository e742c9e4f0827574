"""Conversion of a fitted classifier of scikit-learn that consists of trees to these trees, as data."""

from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.local.hypotheses.rules import LEAF, Trees


def forest_of(model: Any, example: AnyArray) -> Trees | None:
    """Return the trees of a fitted binary classifier, whose sum is positive where it predicts its greater class.

    Returns None if it has no trees. The constant of a sum of trees is determined at ``example``, shape (1, d).
    """
    match type(model).__name__:
        case "DecisionTreeClassifier" | "ExtraTreeClassifier":
            return _forest([_votes(model)])
        case "RandomForestClassifier" | "ExtraTreesClassifier":
            return _forest([_votes(tree) for tree in model.estimators_])
        case "BaggingClassifier" if all(hasattr(tree, "tree_") for tree in model.estimators_):
            pairs = zip(model.estimators_, model.estimators_features_, strict=True)
            return _forest([_votes(tree, features) for tree, features in pairs])
        case "AdaBoostClassifier" if all(hasattr(tree, "tree_") for tree in model.estimators_):
            pairs = zip(model.estimators_, model.estimator_weights_, strict=True)
            return _forest([_scaled(_votes(tree), weight, rounded=True) for tree, weight in pairs])
        case "GradientBoostingClassifier":
            rate = float(model.learning_rate)
            return _summed(model, [_scaled(_leaves(tree), rate) for tree in model.estimators_[:, 0]], example)
        case "HistGradientBoostingClassifier":
            # The fitted trees have no public name in scikit-learn; the agreement test on the draws guards this.
            return _summed(model, [_boosted(stage[0].nodes) for stage in model._predictors], example)
    return None


_Tree = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
"""One tree: feature, threshold or value, left and right child; children are numbered from its root."""


def _leaves(tree: Any, features: AnyArray | None = None, values: Floats | None = None) -> _Tree:
    inner = tree.tree_
    leaf = inner.children_left < 0
    feature = np.where(leaf, LEAF, inner.feature)
    if features is not None:
        feature = np.where(leaf, LEAF, np.asarray(features)[feature])
    value = inner.value[:, 0, 0] if values is None else values
    return feature, np.where(leaf, value, inner.threshold), inner.children_left, inner.children_right


def _votes(tree: Any, features: AnyArray | None = None) -> _Tree:
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
    base = float(model.decision_function(example)[0] - _forest(trees).scores(example)[0])
    return _forest(trees, base)


def _forest(trees: list[_Tree], base: float = 0.0) -> Trees:
    roots = np.cumsum([0, *(len(tree[0]) for tree in trees[:-1])]).tolist()
    rooted = list(zip(trees, roots, strict=True))
    feature, threshold = (tuple(np.concatenate([tree[k] for tree in trees]).tolist()) for k in (0, 1))
    left, right = (
        tuple(np.concatenate([np.where(tree[k] < 0, LEAF, tree[k] + root) for tree, root in rooted]).tolist())
        for k in (2, 3)
    )
    return Trees(roots=tuple(roots), feature=feature, threshold=threshold, left=left, right=right, base=base)
