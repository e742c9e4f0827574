"""Planning the parity learner: blocks that span, one of which answers, in a single iteration."""

from __future__ import annotations

from typing import NamedTuple

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.parity import OpenParity, ParitySettings
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task
from common.privacy.rounding import down
from common.privacy.theorems.klnrs import Rule, rates
from common.scenario.scenario import Scenario
from common.statistics import spanning
from common.statistics.formulas import PAPER, PlannedValue, fixed, follow


class _Keeping(NamedTuple):
    """How KLNRS keeps records, and for which epsilon."""

    rule: Rule
    epsilon: float


@PLANNINGS.register("parity")
class ParityPlanning(LearnerPlanning[OpenParity, ParitySettings]):
    """``blocks`` R; ``rule`` as the bounds are; ``epsilon`` the curator's whole budget, in equal parts a round.

    The labels are a parity and T is uniform, so a block of full rank can only answer with the truth: one
    round, no reweighing, and n = R blocks of as many rows as full rank takes.
    """

    least = ("blocks",)

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: the answer is the truth or none."""
        return follow(scenario.curator.rounds, lambda: 1, "one iteration", PAPER + "Appendix B")

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """Return R blocks times their rows."""
        keeping, given = self._keeping(scenario, paper), self.asked.blocks
        if paper:
            text = "k 32 X d ln(2d/beta)/eps, k = log_{4/3}(2/beta) blocks"
            count, rows = spanning.paper_blocks(scenario.beta), _paper_rows(scenario, keeping)
            return fixed((count if given == PLAN else given) * rows, text, PAPER + "Corollary B.3")
        chances, bottom = _chances(scenario, keeping)
        count, rows = spanning.blocks(chances, bottom, scenario.beta)
        if given != PLAN:
            count, rows = given, spanning.rows_of(chances, bottom, scenario.beta, given)
        text = "R m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta - b^R)/R, q_i = (1 - 2^(i-d))^2/X"
        return fixed(count * rows, text, PAPER + "Claim B.2, exact tail; docs/corrections.md, K9")

    def complete(self, task: Task, n: int | None) -> ParitySettings:
        """Fill in ``rule``, ``epsilon`` and ``blocks``."""
        keeping, blocks = self._keeping(task.scenario, task.paper), self.asked.blocks
        least = _least(task, keeping) if blocks == PLAN else blocks
        return self.asked.settled(ParitySettings, rule=keeping.rule, epsilon=keeping.epsilon, blocks=least)

    def people(self, task: Task, learner: ParitySettings) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "R blocks of full rank; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, PAPER + "Appendix B")

    def planned_values(self, task: Task, learner: ParitySettings) -> dict[str, PlannedValue]:
        """Return R."""
        text, source = "least R with b^R < beta and the fewest records", PAPER + "Appendix B"
        if task.paper:
            text, source = "log_{4/3}(2/beta)", PAPER + "Corollary B.3"
        keeping = _Keeping(learner.rule, learner.epsilon)
        return {"blocks": follow(self.asked.blocks, lambda: _least(task, keeping), text, source)}

    def _keeping(self, scenario: Scenario, paper: bool) -> _Keeping:
        rule, epsilon = self.asked.rule, self.asked.epsilon
        if rule == PLAN:
            rule = "paper" if paper else "tight"
        if epsilon == PLAN:
            whole, rounds = scenario.curator.epsilon, scenario.curator.rounds
            if whole is None:
                raise BadScenario("planning the parity learner's epsilon needs the curator's")
            # The sum of several is rounded up where it is priced.
            epsilon = whole if rounds == PLAN or rounds == 1 else down(whole / rounds)
        return _Keeping(rule, epsilon)


def _chances(scenario: Scenario, keeping: _Keeping) -> tuple[Floats, float]:
    """Return p q_i for i = 0..d-1, and b."""
    kept, answers = rates(keeping.rule, keeping.epsilon)
    divergence = scenario.divergence
    chances = spanning.escapes(scenario.source.dimension, divergence.chi_squared, divergence.supremum)
    return kept * chances, 1.0 - answers


def _paper_rows(scenario: Scenario, keeping: _Keeping) -> int:
    dimension, divergence = scenario.source.dimension, scenario.divergence
    return spanning.paper_rows(dimension, scenario.beta, divergence.chi_squared, keeping.epsilon)


def _least(task: Task, keeping: _Keeping) -> int:
    if task.paper:
        return spanning.paper_blocks(task.scenario.beta)
    return spanning.blocks(*_chances(task.scenario, keeping), task.scenario.beta)[0]
