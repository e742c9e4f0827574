"""What every hypothesis can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, SerializeAsAny

from common.core.arrays import AnyArray, Bits, Floats, Labels, Singles
from common.core.errors import BadInput
from common.core.registry import RegisteredValue, TypeRegistry
from common.local.naming import Names
from common.local.records import Records

_CELLS = 1 << 20  # features looked at in one go: intermediate results of a hypothesis fit in a few megabytes


def logistic(margins: AnyArray) -> Floats:
    """Return 1/(1 + e^-m), shape (n,), float64; where m < -700, that of -700, which is below 1e-304."""
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(-margins.astype(np.float64), 700.0))))


class Hypothesis(RegisteredValue):
    """A classifier h: features -> {-1, +1}, as a frozen value with a ``kind`` and a JSON form.

    It is total: for any finite features, also where an intermediate result overflows, it predicts -1 or +1.
    """

    kind: str

    by_choice: ClassVar[bool] = False  # whether a party accepts it only where its own policy names it
    nests: ClassVar[bool] = False  # whether it is made of other hypotheses; it is then no part of a further one

    # By the fields alone: the arrays that a hypothesis caches beside them cannot be compared with ==.
    def _content(self) -> tuple[Any, ...]:
        return (type(self), *(getattr(self, name) for name in type(self).model_fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypothesis) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    @property
    @abstractmethod
    def min_features(self) -> int:
        """Smallest number of features on which it is defined."""

    def rule(self, names: Names, article: str = "a") -> str:
        """Return what it predicts from what, for a person who is asked about it."""
        return f"{article} rule that predicts {self.target(names)} from {names.among(self.inputs)}"

    def target(self, names: Names) -> str:
        """Return what it predicts, which :meth:`labels` are: here the label of a record."""
        return names.of_label

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the features that a prediction looks at, ascending: here all below ``min_features``."""
        return tuple(range(self.min_features))

    def positive(self, features: AnyArray) -> AnyArray:
        """Say where it predicts +1, shape (n,), bool, for a few rows: a kind has its own, or :meth:`margins`."""
        return self.margins(features) > 0

    def predict(self, features: AnyArray) -> Labels:
        """Predict labels, (n,) int8 in {-1, +1}, for features of shape (n, d), d >= ``min_features``."""
        labels = np.empty(len(features), dtype=np.int8)
        rows = max(1, _CELLS // max(1, features.shape[1]))
        with np.errstate(all="ignore"):
            for start in range(0, len(features), rows):
                labels[start : start + rows] = self.positive(features[start : start + rows])
        labels *= 2
        labels -= 1
        return labels

    def margins(self, features: AnyArray) -> Singles:
        """Return how far each of n rows is on the positive side, shape (n,), float32: here -1 or +1, the prediction."""
        return self.predict(features).astype(np.float32)

    def scores(self, features: AnyArray) -> Floats:
        """Return what to compare with other hypotheses' scores, shape (n,), float64: here the margins."""
        return self.margins(features).astype(np.float64)

    def values(self, features: AnyArray) -> Floats:
        """Return each row's prediction as a number in [0, 1], shape (n,), float64: here (1 + margin)/2, clipped."""
        with np.errstate(all="ignore"):
            return np.clip(np.nan_to_num((1.0 + self.margins(features).astype(np.float64)) / 2.0, nan=0.5), 0.0, 1.0)

    def probabilities(self, features: AnyArray) -> Floats:
        """Return the model's own probability of +1 for each row, shape (n,), float64; BadInput if it has none."""
        raise BadInput(f"a model of kind {self.kind!r} gives no probabilities: its score is none, so ask for labels")

    def responses(self, records: Records) -> Floats:
        """Return the numbers in [0, 1] that the values are held against, shape (n,): here (1 + label)/2."""
        return (1.0 + self.labels(records).astype(np.float64)) / 2.0

    def labels(self, records: Records) -> Labels:
        """Return the labels that it is held against, shape (n,), int8: the records' own."""
        return records.labels

    def mistakes(self, records: Records) -> Bits:
        """Return the 0/1 losses, shape (n,), uint8: 1 where the prediction differs from the label."""
        return np.not_equal(self.predict(records.features), self.labels(records)).view(np.uint8)


HYPOTHESES: TypeRegistry[Hypothesis] = TypeRegistry("hypothesis", __name__, "kind")
parse_hypothesis = HYPOTHESES.parse
AnyHypothesis = Annotated[SerializeAsAny[Hypothesis], BeforeValidator(HYPOTHESES.accept)]
"""A field of a value that holds any registered hypothesis."""


def ordinary_kinds() -> frozenset[str]:
    """Return the kinds that every party accepts without having chosen to."""
    return frozenset(name for name, kind in HYPOTHESES.items() if not kind.by_choice)


def plain_kinds() -> frozenset[str]:
    """Return the ordinary kinds of which others can be made."""
    return frozenset(name for name in ordinary_kinds() if not HYPOTHESES[name].nests)


def _plain(value: Any) -> Any:
    kind, plain = getattr(value, "kind", value.get("kind") if isinstance(value, dict) else None), plain_kinds()
    if not isinstance(kind, str) or kind not in plain:
        known = ", ".join(sorted(plain))
        raise ValueError(f"a hypothesis of kind {kind!r:.40} cannot be part of another; these can: {known}")
    return HYPOTHESES.accept(value)


PlainHypothesis = Annotated[SerializeAsAny[Hypothesis], BeforeValidator(_plain)]
"""A field of a hypothesis that holds another one."""


def hypothesis_kinds(wire: Any) -> frozenset[str]:
    """Return the kinds of all hypotheses in a query's or operation's JSON form: only those that exist.

    They are found under any name, also in a value of the message, as in cells of scores, but not within a hypothesis.
    This comes before anything is parsed.
    """
    found: set[str] = set()
    for value in wire.values() if isinstance(wire, dict) else ():
        kind = value.get("kind") if isinstance(value, dict) else None
        found |= {kind} if isinstance(kind, str) and kind in HYPOTHESES.names() else hypothesis_kinds(value)
    return frozenset(found)
