"""The support vector machine: its settings; it has no guarantee."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from common.learners.base import SETTINGS, LearnerSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear
from common.privacy.events import Event, NonPrivate


@SETTINGS.register("svm")
class SvmSettings(LearnerSettings):
    """Settings of the linear support vector machine (:class:`curator.learners.svm.Svm`).

    Attributes:
        draws: m. A half-space in d dimensions without a mistake on ``(d + ln(T/beta)) / alpha`` draws has loss about
            alpha on their distribution (Appendix C prints the logarithm with the wrong sign; docs/corrections.md, K8).
        penalty: C. Appendix C has 10^30, for "as exact a hyperplane as possible"; 100 separates its draws.
        intercept: Value of the feature appended to every record; 0 for none.
        until: ``separated``: stop as soon as no draw is on the wrong side, or else at the minimum; ``minimum``: go
            there always.
    """

    name: Literal["svm"] = "svm"
    draws: int = Field(ge=1, le=10**7)
    penalty: float = Field(default=100.0, gt=0, le=1e6)
    intercept: float = Field(default=1.0, ge=0)
    until: Literal["separated", "minimum"] = "separated"

    def can_give(self, hypothesis: Hypothesis) -> bool:
        return isinstance(hypothesis, Linear)

    def event(self, tv_bound: float) -> Event:
        return NonPrivate()
