"""An ensemble of trees as the attributes of ONNX's ``TreeEnsembleRegressor``, whose features are float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common.core.arrays import Indices
from common.vocabulary.hypotheses.trees import LEAF, Trees


class Ensemble(NamedTuple):
    """Nodes and leaves in the operator's form.

    Attributes
    ----------
    attributes
        All but what a leaf adds to which target: ``target_ids`` and ``target_weights``.
    leaves
        Shape (leaves,): their places in the hypothesis' arrays, in the order of the targets.
    tree
        Shape (leaves,): the tree of each.
    """

    attributes: dict[str, list[Any]]
    leaves: Indices
    tree: Indices


def ensemble(trees: Trees) -> Ensemble:
    """Return what the operator needs to find each row's leaves.

    Features are float32, so x <= t says the same as x <= (t rounded down to float32): every row finds the leaf that the
    hypothesis finds in double precision.
    """
    feature, threshold, roots = np.array(trees.feature), np.array(trees.threshold), np.array(trees.roots)
    tree = np.searchsorted(roots, np.arange(len(feature)), side="right") - 1
    start, inner = roots[tree], feature != LEAF
    node = np.arange(len(feature)) - start
    single = threshold.astype(np.float32)
    lower = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    attributes: dict[str, list[Any]] = {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": node.tolist(),
        "nodes_featureids": np.where(inner, feature, 0).tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_values": np.where(inner, lower, 0.0).tolist(),
        "nodes_truenodeids": np.where(inner, np.array(trees.left) - start, 0).tolist(),
        "nodes_falsenodeids": np.where(inner, np.array(trees.right) - start, 0).tolist(),
        "target_treeids": tree[~inner].tolist(),
        "target_nodeids": node[~inner].tolist(),
    }
    leaves = np.flatnonzero(~inner)
    return Ensemble(attributes, leaves, tree[leaves])
