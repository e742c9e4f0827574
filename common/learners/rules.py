"""Learners of rules, by the exponential mechanism over a finite class, and of parities: settings, event, plan."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats
from common.core.errors import BadInput, BadScenario
from common.core.values import PLAN, FromPlan
from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, PlanRequest, PlanTask
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis
from common.local.hypotheses.rules import Conjunction, Constant, Parity, Stump
from common.privacy.events import Event, Release, SubsampledRelease
from common.privacy.rounding import down
from common.privacy.theorems.randomized_response import Rule, rates
from common.statistics import formulas, spanning
from common.statistics.formulas import PAPER, PlannedValue, fixed, follow

Draws = Annotated[int, Field(ge=1, le=10**7)]
Epsilon = Annotated[float, Field(gt=0)]


class OpenExponential(OpenSettings):
    """Settings of the exponential mechanism (:class:`curator.learners.rules.Exponential`).

    Attributes:
        hypotheses: ``conjunctions`` of ``literals`` features (0/1 features only), or ``stumps``.
        draws: m.
        epsilon: Guarantee of one call for the m draws.
        literals: s, 1 to 8. |H| = C(d, s), at most 2^31 (about a second for every 2^27 of them).
        low, high, cells: Stumps: thresholds are the ``cells`` numbers low, ..., high, equally spaced and public. |H| =
            2 d cells.
    """

    least: ClassVar[tuple[str, ...]] = ("draws",)
    name: Literal["exponential"] = "exponential"
    hypotheses: Literal["conjunctions", "stumps"]
    draws: Draws | FromPlan
    epsilon: Epsilon | FromPlan
    literals: int = Field(default=2, ge=1, le=8)
    low: float = Field(default=-1.0, ge=-GREATEST)
    high: float = Field(default=1.0, le=GREATEST)
    cells: int = Field(default=64, ge=2, le=1 << 16)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self

    def complete(self, task: PlanTask, n: int | None) -> ExponentialSettings:
        epsilon = 1.0 if self.epsilon == PLAN else self.epsilon
        draws = _enough_draws(task, epsilon) if self.draws == PLAN else self.draws
        return self.settled(ExponentialSettings, epsilon=epsilon, draws=draws)


@SETTINGS.register("exponential")
class ExponentialSettings(OpenExponential, LearnerSettings):
    """Settled settings of the exponential mechanism."""

    draws: Draws
    epsilon: Epsilon

    def can_give(self, hypothesis: Hypothesis) -> bool:
        if self.hypotheses == "stumps":
            grid = np.linspace(self.low, self.high, self.cells)
            return isinstance(hypothesis, Stump) and bool(np.any(grid == hypothesis.threshold))
        return isinstance(hypothesis, Conjunction) and len(hypothesis.features) == self.literals

    def event(self, tv_bound: float) -> Event:
        return SubsampledRelease(draws=self.draws, tv_bound=tv_bound, epsilon=self.epsilon, delta=0.0)

    def paper_people(self, task: PlanTask, epsilon: float, delta: float, kappa: float) -> PlannedValue | None:
        least = partial(formulas.paper_n_release, self.draws, task.rounds, kappa, epsilon, delta)
        text = "max(n of the statistics, m sqrt(288 T ln(2/delta))/(eps kappa))"
        return follow(task.given_n, lambda: max(task.sample, least()), text, PAPER + "Theorem 4.2")

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        text, source = "max(4/eps, 8) ln(2T|H|/beta)/(learner alpha)", "McSherry and Talwar 2007; Chernoff"
        return {"draws": follow(settings.value("draws"), lambda: _enough_draws(task, self.epsilon), text, source)}


def _enough_draws(task: PlanTask, epsilon: float) -> int:
    if task.hypotheses is None:
        raise BadScenario("planning the exponential mechanism's draws needs hypotheses, the size of the class")
    return formulas.draws(task.accuracy, task.beta, task.rounds, epsilon, task.hypotheses)


Blocks = Annotated[int, Field(ge=1, le=1024)]
_RULE: Rule = "tight"
_BLOCKS = 1


class OpenParity(OpenSettings):
    """Settings of the learner of parities (:class:`curator.learners.rules.ParityLearner`).

    Attributes:
        epsilon: Guarantee of one call.
        rule: ``tight`` or ``paper``: the values of p and of the probability of bottom.
        blocks: R, at least 1.
    """

    reweighs: ClassVar[bool] = False
    finds_parities: ClassVar[bool] = True
    least: ClassVar[tuple[str, ...]] = ("blocks",)
    name: Literal["parity"] = "parity"
    epsilon: Epsilon | FromPlan
    rule: Rule | FromPlan = _RULE
    blocks: Blocks | FromPlan = _BLOCKS

    def planned_rounds(self, request: PlanRequest) -> PlannedValue:
        return follow(request.given_rounds, lambda: 1, "one iteration", PAPER + "Appendix B")

    def planned_sample(self, request: PlanRequest) -> PlannedValue:
        keep, block_count = self._keep_rule(request), self.blocks
        if request.paper:
            text = "k 32 X d ln(2d/beta)/eps, k = log_{4/3}(2/beta) blocks"
            rows = spanning.paper_rows(request.dimension, request.beta, request.chi_squared, keep.epsilon)
            count = spanning.paper_blocks(request.beta) if block_count == PLAN else block_count
            return fixed(count * rows, text, PAPER + "Corollary B.3")
        chances, bottom = keep.chances(request)
        count, rows = spanning.blocks(chances, bottom, request.beta)
        if block_count != PLAN:
            count, rows = block_count, spanning.rows_of(chances, bottom, request.beta, block_count)
        text = "R m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta - b^R)/R, q_i = (1 - 2^(i-d))^2/X"
        return fixed(count * rows, text, PAPER + "Claim B.2, exact tail; docs/corrections.md, K9")

    def complete(self, task: PlanTask, n: int | None) -> ParitySettings:
        keep = self._keep_rule(task)
        least = keep.least(task) if self.blocks == PLAN else self.blocks
        return self.settled(ParitySettings, rule=keep.rule, epsilon=keep.epsilon, blocks=least)

    def _keep_rule(self, request: PlanRequest) -> _KeepRule:
        rule, epsilon = self.rule, self.epsilon
        if rule == PLAN:
            rule = "paper" if request.paper else "tight"
        if epsilon == PLAN:
            budget, rounds = request.epsilon, request.given_rounds
            if budget is None:
                raise BadScenario("planning the parity learner's epsilon needs the curator's")
            # The sum for several blocks is rounded up where it is priced.
            epsilon = budget if rounds == PLAN or rounds == 1 else down(budget / rounds)
        return _KeepRule(rule, epsilon)


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
        return isinstance(hypothesis, Parity) or hypothesis == Constant(label=-1)

    def event(self, tv_bound: float) -> Event:
        return Release(epsilon=self.epsilon)

    def planned_people(self, task: PlanTask) -> PlannedValue:
        return task.any_people(PAPER + "Appendix B", "R blocks of full rank; any n is as private")

    def planned_values(self, task: PlanTask, settings: OpenSettings) -> dict[str, PlannedValue]:
        text, source = "least R with b^R < beta and the fewest records", PAPER + "Appendix B"
        if task.paper:
            text, source = "log_{4/3}(2/beta)", PAPER + "Corollary B.3"
        keep = _KeepRule(self.rule, self.epsilon)
        return {"blocks": follow(settings.value("blocks"), lambda: keep.least(task), text, source)}


class _KeepRule(NamedTuple):
    """The rule by which KLNRS keeps records, and its epsilon."""

    rule: Rule
    epsilon: float

    def chances(self, request: PlanRequest) -> tuple[Floats, float]:
        """Return p q_i for i = 0..d-1, and b."""
        keep_rate, answers = rates(self.rule, self.epsilon)
        return keep_rate * spanning.escapes(request.dimension, request.chi_squared, request.supremum), 1.0 - answers

    def least(self, request: PlanRequest) -> int:
        """Return R, the number of blocks."""
        if request.paper:
            return spanning.paper_blocks(request.beta)
        return spanning.blocks(*self.chances(request), request.beta)[0]
