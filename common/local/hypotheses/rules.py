"""Hypotheses that are rules: a constant, a conjunction, a stump, a parity (flipped or not), an ensemble of trees."""

from functools import cached_property
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from common.core.arrays import AnyArray, Bits, Floats, Indices
from common.core.values import Word
from common.local.hypotheses.hypothesis import HYPOTHESES, MAX_WEIGHTS, Hypothesis, Weight
from common.local.naming import Names
from common.numerics.kernels import njit
from common.numerics.loops import pack


def _increasing(features: tuple[int, ...]) -> tuple[int, ...]:
    if any(after <= before for before, after in pairwise(features)):
        raise ValueError("features must be strictly increasing")
    return features


FeatureSet = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_WEIGHTS)], ...], AfterValidator(_increasing)]
"""Feature numbers, strictly increasing, each below 65536, so that each set has one encoding."""


class _HypothesisOnInputs(Hypothesis):
    """A hypothesis whose number of needed features follows from :attr:`inputs`."""

    @property
    def min_features(self) -> int:
        return max(self.inputs, default=-1) + 1


@HYPOTHESES.register("constant")
class Constant(Hypothesis):
    """h(x) = ``label`` for every x. Learners release it if all draws have the same label."""

    kind: Literal["constant"] = "constant"
    label: Literal[-1, 1]
    examples: ClassVar = ({"label": -1}, {"label": 1})

    @property
    def min_features(self) -> int:
        return 0

    def rule(self, names: Names) -> str:
        return f"the rule that {names.labelled(self.label)} for everybody"

    def positive(self, features: AnyArray) -> AnyArray:
        return np.full(len(features), self.label > 0)


MAX_LITERALS = 64


@HYPOTHESES.register("conjunction")
class Conjunction(_HypothesisOnInputs):
    """h(x) = +1 if every one of the given features (1 to 64) is above 1/2 (for 0/1 features: is 1), else -1."""

    kind: Literal["conjunction"] = "conjunction"
    features: FeatureSet = Field(min_length=1, max_length=MAX_LITERALS)
    examples: ClassVar = ({"features": [1, 3]},)

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.features

    def positive(self, features: AnyArray) -> AnyArray:
        positive = np.ones(len(features), dtype=np.bool_)
        for feature in self.features:
            positive &= features[:, feature] > 0.5
        return positive


@HYPOTHESES.register("stump")
class Stump(_HypothesisOnInputs):
    """h(x) = ``sign`` if x_j > ``threshold`` else ``-sign``, j = ``feature``, compared in double precision."""

    kind: Literal["stump"] = "stump"
    feature: int = Field(ge=0, lt=MAX_WEIGHTS)
    threshold: Weight
    sign: Literal[-1, 1]
    examples: ClassVar = ({"feature": 2, "threshold": 0.1, "sign": -1}, {"feature": 0, "threshold": 0.0, "sign": 1})

    @property
    def inputs(self) -> tuple[int, ...]:
        return (self.feature,)

    def positive(self, features: AnyArray) -> AnyArray:
        return np.equal(features[:, self.feature] > np.float64(self.threshold), self.sign > 0)


MAX_FEATURES = 4096


@HYPOTHESES.register("parity")
class Parity(_HypothesisOnInputs):
    """h(x) = +1 if an odd number of the given features (0 to 4096) is above 1/2 (for 0/1 ones: is 1), else -1."""

    kind: Literal["parity"] = "parity"
    features: FeatureSet = Field(max_length=MAX_FEATURES)
    examples: ClassVar = ({"features": [0, 2, 3]}, {"features": []})

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.features

    @cached_property
    def mask(self) -> Bits:
        """The set as a 0/1 vector of shape (min_features,), uint8."""
        mask = np.zeros(self.min_features, dtype=np.uint8)
        mask[list(self.features)] = 1
        return mask

    def positive(self, features: AnyArray) -> AnyArray:
        if features.dtype != np.uint8:
            features = (features[:, : self.min_features] > 0.5).view(np.uint8)
        odd = np.empty(len(features), dtype=np.bool_)
        _fold(features, self.mask, odd)
        return odd


@njit
def _fold(features: Bits, mask: Bits, odd: AnyArray) -> None:
    for i in range(len(features)):
        count, row = 0, features[i]
        for j in range(len(mask)):
            count += int((row[j] != 0) & (mask[j] != 0))
        odd[i] = count & 1


@HYPOTHESES.register("flipped-parity")
class FlippedParity(_HypothesisOnInputs):
    """A parity that is flipped where the number that some features are the bits of is ``threshold`` or more.

    Attributes:
        features: The features whose parity is predicted.
        first, bits: The feature that is the number's most significant bit, and the number of its bits, 1 to 64. A
            feature above 0 is the bit 1.
    """

    kind: Literal["flipped-parity"] = "flipped-parity"
    features: FeatureSet = Field(max_length=MAX_FEATURES)
    first: int = Field(ge=0, lt=MAX_WEIGHTS)
    bits: int = Field(ge=1, le=64)
    threshold: Word = Field(ge=0, lt=1 << 64)
    examples: ClassVar = ({"features": [0, 2], "first": 3, "bits": 2, "threshold": 2},)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(sorted({*self.features, *range(self.first, self.first + self.bits)}))

    def positive(self, features: AnyArray) -> AnyArray:
        number = pack(np.ascontiguousarray(features[:, self.first : self.first + self.bits]))
        return Parity(features=self.features).positive(features) ^ (number >= np.uint64(self.threshold))


MAX_NODES = 1 << 18
MAX_DEPTH = 256
LEAF = -1

Nodes = Field(min_length=1, max_length=MAX_NODES)
Child = Annotated[int, Field(ge=LEAF, lt=MAX_NODES)]
_Forest = tuple[Indices, Indices, Indices, Floats, Indices, Indices]


@HYPOTHESES.register("trees")
class Trees(_HypothesisOnInputs):
    """h(x) = +1 if base + (sum over trees of the value of x's leaf) > 0 else -1.

    Node i of the flat arrays sends x to ``left[i]`` if x_j <= ``threshold[i]``, j = ``feature[i]``, else to
    ``right[i]``; a leaf has -1 in ``feature``, ``left`` and ``right``, and its value in ``threshold[i]``. Every
    child comes after its parent, in the same tree, and has one parent, so no walk can loop; the depth is at most
    256, so none is long.

    Attributes:
        roots: First node of each tree, strictly increasing from 0.
        feature, threshold, left, right: One entry per node, at most 262144.
        base: Added to the sum.
    """

    kind: Literal["trees"] = "trees"
    roots: tuple[Annotated[int, Field(ge=0, lt=MAX_NODES)], ...] = Nodes
    feature: tuple[Annotated[int, Field(ge=LEAF, lt=MAX_WEIGHTS)], ...] = Nodes
    threshold: tuple[Weight, ...] = Nodes
    left: tuple[Child, ...] = Nodes
    right: tuple[Child, ...] = Nodes
    base: Weight = 0.0
    examples: ClassVar = (
        {
            "roots": [0, 3],
            "feature": [1, -1, -1, -1],
            "threshold": [0.2, 1.0, -1.0, 0.5],
            "left": [1, -1, -1, -1],
            "right": [2, -1, -1, -1],
            "base": -0.4,
        },
    )

    @model_validator(mode="after")
    def _is_forest(self) -> Self:
        nodes = len(self.feature)
        if not len(self.threshold) == len(self.left) == len(self.right) == nodes:
            raise ValueError("feature, threshold, left and right must have one entry a node")
        if self.roots[0] != 0 or any(b <= a for a, b in pairwise(self.roots)):
            raise ValueError("roots must be strictly increasing from 0")
        if self.roots[-1] >= nodes:
            raise ValueError(f"root {self.roots[-1]} is not one of {nodes} nodes")
        depth = [-1] * nodes
        for root, end in zip(self.roots, (*self.roots[1:], nodes), strict=True):
            depth[root] = 0
            for node in range(root, end):
                self._check_node(node, end, depth)
        return self

    def _check_node(self, node: int, end: int, depth: list[int]) -> None:
        if depth[node] < 0:
            raise ValueError(f"node {node} has no parent")
        children = (self.left[node], self.right[node])
        if self.feature[node] == LEAF:
            if children != (LEAF, LEAF):
                raise ValueError(f"leaf {node} has children")
            return
        if depth[node] >= MAX_DEPTH:
            raise ValueError(f"node {node} lies deeper than {MAX_DEPTH}")
        for child in children:
            if not node < child < end:
                raise ValueError(f"child {child} of node {node} is not a later node of the same tree")
            if depth[child] >= 0:
                raise ValueError(f"node {child} has two parents")
            depth[child] = depth[node] + 1

    @cached_property
    def _arrays(self) -> _Forest:
        """Roots, depths of the trees, and nodes; a leaf is its own child, and reads feature 0 without using it.

        So every record takes as many steps as the tree is deep, and the time does not depend on its path.
        """
        depth = np.zeros(len(self.feature), dtype=np.int64)
        for node, children in enumerate(zip(self.left, self.right, strict=True)):
            for child in children:
                if child != LEAF:
                    depth[child] = depth[node] + 1
        nodes = np.arange(len(self.feature))
        left, right = (np.asarray(side, dtype=np.int64) for side in (self.left, self.right))
        return (
            np.asarray(self.roots, dtype=np.int64),
            np.maximum.reduceat(depth, np.asarray(self.roots, dtype=np.int64)),
            np.maximum(np.asarray(self.feature, dtype=np.int64), 0),
            np.asarray(self.threshold, dtype=np.float64),
            np.where(left == LEAF, nodes, left),
            np.where(right == LEAF, nodes, right),
        )

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.feature) - {LEAF}))

    def scores(self, features: AnyArray) -> Floats:
        scores = np.full(len(features), self.base)
        _walk(features, self._arrays, scores)
        return scores

    def positive(self, features: AnyArray) -> AnyArray:
        return self.scores(features) > 0


@njit
def _walk(features: AnyArray, forest: _Forest, scores: Floats) -> None:
    roots, depths, feature, threshold, left, right = forest
    for i in range(len(scores)):
        for k in range(len(roots)):
            node = roots[k]
            for _ in range(depths[k]):
                node = left[node] if features[i, feature[node]] <= threshold[node] else right[node]
            scores[i] += threshold[node]
