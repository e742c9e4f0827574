"""The private learner of parities, as everybody sees it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from common.core.errors import BadInput
from common.core.values import FromPlan
from common.learners.base import OPEN, SETTINGS, LearnerSettings, OpenSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Constant, Parity
from common.privacy.events import Event, Release
from common.privacy.theorems.klnrs import Rule, rates

Epsilon = Annotated[float, Field(gt=0)]
Blocks = Annotated[int, Field(ge=1, le=1024)]
_RULE: Rule = "tight"
_BLOCKS = 1


@OPEN.register("parity")
class OpenParity(OpenSettings):
    """Settings of the learner of parities (:class:`curator.learners.parity.ParityLearner`).

    Attributes
    ----------
    epsilon
        Of one call.
    rule
        ``tight`` or ``paper``: which p, and how often bottom.
    blocks
        R, at least 1.
    """

    reweighs: ClassVar[bool] = False

    name: Literal["parity"] = "parity"
    epsilon: Epsilon | FromPlan
    rule: Rule | FromPlan = _RULE
    blocks: Blocks | FromPlan = _BLOCKS


@SETTINGS.register("parity")
class ParitySettings(OpenParity, LearnerSettings):
    """Settled settings of the learner of parities."""

    epsilon: Epsilon
    rule: Rule = _RULE
    blocks: Blocks = _BLOCKS

    @model_validator(mode="after")
    def _has_rates(self) -> Self:
        try:
            rates(self.rule, self.epsilon)
        except BadInput as error:
            raise ValueError(error.detail) from None
        return self

    def can_give(self, hypothesis: Hypothesis) -> bool:
        """Tell whether a hypothesis is a parity, or the constant -1, which is said where there is no answer."""
        return isinstance(hypothesis, Parity) or hypothesis == Constant(label=-1)

    def event(self, tv_bound: float) -> Event:
        """One pure release from the sample itself: no draws, so no amplification either."""
        return Release(epsilon=self.epsilon)
