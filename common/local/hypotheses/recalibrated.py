"""Another hypothesis's score, on another scale and with an intercept for each public group."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import AnyArray, Floats, Singles
from common.local.hypotheses.hypothesis import HYPOTHESES, Hypothesis, PlainHypothesis, logistic
from common.local.hypotheses.linear import GREATEST, Linear, Weight
from common.local.records import Groups, group_of, number_of


@HYPOTHESES.register("recalibrated")
class Recalibrated(Hypothesis):
    """h(x) = +1 if ``slope`` * score(x) + ``intercepts[group(x)]`` > 0 else -1.

    What a released model can be repaired by without a look at anybody's record: agents say how their labels go with
    its scores, and a logistic fit of what they say gives slope and intercepts (Platt 1999). The margin is then the
    logarithm of the odds of +1.

    Attributes:
        hypothesis: Whose score it is.
        slope: Positive, at most 1e6.
        intercepts: One for each group.
        groups: See :data:`common.local.records.Groups`.
    """

    nests: ClassVar[bool] = True

    kind: Literal["recalibrated"] = "recalibrated"
    hypothesis: PlainHypothesis
    slope: float = Field(gt=0, le=1e6)
    intercepts: Annotated[tuple[Weight, ...], Field(min_length=1)]
    groups: Groups = ()

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        plane = Linear(weights=(0.5, -1.0, 2.0), threshold=0.25)
        return (
            cls(hypothesis=plane, slope=0.5, intercepts=(0.1,)),
            cls(hypothesis=plane, slope=2.0, intercepts=(0.1, -0.5, 0.0), groups=(1, 4)),
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

    def probabilities(self, features: AnyArray) -> Floats:
        return logistic(self.margins(features))

    def positive(self, features: AnyArray) -> AnyArray:
        return self.margins(features) > 0


def recalibrated(
    hypothesis: Hypothesis, slope: float, intercepts: tuple[float, ...], groups: tuple[int, ...] = ()
) -> Hypothesis:
    """Return a hypothesis recalibrated: a half-space stays one where there are no groups.

    Raises:
        BadMessage: If the hypothesis is of a kind that cannot be part of another.
    """
    if isinstance(hypothesis, Linear) and not groups:
        scaled = {"weights": tuple(slope * weight for weight in hypothesis.weights)}
        return Linear.parse({**scaled, "threshold": slope * hypothesis.threshold - intercepts[0]})
    return Recalibrated.parse({"hypothesis": hypothesis, "slope": slope, "intercepts": intercepts, "groups": groups})
