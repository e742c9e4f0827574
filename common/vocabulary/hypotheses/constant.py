"""The same label for everybody."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from common.core.arrays import AnyArray
from common.vocabulary.hypotheses.base import HYPOTHESES, Hypothesis
from common.vocabulary.naming import Names


@HYPOTHESES.register("constant")
class Constant(Hypothesis):
    """h(x) = ``label``: what is left to say when every draw has the same label.

    Attributes
    ----------
    label
        -1 or +1.
    """

    kind: Literal["constant"] = "constant"
    label: Literal[-1, 1]

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return both."""
        return (cls(label=-1), cls(label=1))

    @property
    def min_features(self) -> int:
        """It looks at no feature."""
        return 0

    def rule(self, names: Names, article: str = "a") -> str:
        """Return what it says of everybody."""
        return f"the rule that {names.labelled(self.label)} for everybody"

    def positive(self, features: AnyArray) -> AnyArray:
        """Predict the label, whatever the features."""
        return np.full(len(features), self.label > 0)
