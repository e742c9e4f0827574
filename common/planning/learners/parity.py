"""Planning the parity learner: blocks that span, one of which answers, in a single iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.planning import spanning
from common.planning.learners.base import PLANNINGS, LearnerPlanning, Task, number
from common.planning.planned_values import PAPER, PlannedValue, fixed, follow
from common.privacy.accountants.base import Plan as Events
from common.privacy.events import SubsampledRelease
from common.privacy.rounding import down
from common.privacy.theorems.klnrs import Rule, rates
from common.scenario.scenario import Scenario


@PLANNINGS.register("parity")
class ParityPlanning(LearnerPlanning):
    """``blocks`` R; ``rule`` as the bounds are; ``epsilon`` the curator's whole budget, in equal parts a round.

    The labels are a parity and T is uniform, so a block of full rank can only answer with the truth: one
    round, no reweighing, and n = R blocks of as many rows as full rank takes.
    """

    open_settings = frozenset({"blocks", "rule", "epsilon"})
    least = ("blocks",)
    reweighs = False

    def events(self, learner: dict[str, Any], schedule: Sequence[float]) -> Events:
        """One pure release from the sample itself a round, whatever the weights."""
        event = SubsampledRelease(draws=1, sampling=1.0, epsilon=number(learner, "epsilon"), delta=0.0)
        return [(event, len(schedule))]

    def rounds(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """One: the answer is the truth or none."""
        return follow(scenario.curator.rounds, lambda: 1, "one iteration", PAPER + "Appendix B")

    def sample(self, scenario: Scenario, paper: bool) -> PlannedValue:
        """Return R blocks times their rows."""
        learner = _settings(scenario, paper)
        if paper:
            text = "k 32 X d ln(2d/beta)/eps, k = log_{4/3}(2/beta) blocks"
            count, rows = spanning.paper_blocks(scenario.beta), _paper_rows(scenario, learner)
            return fixed(_blocks(learner, count) * rows, text, PAPER + "Corollary B.3")
        chances, bottom = _chances(scenario, learner)
        count, rows = spanning.blocks(chances, bottom, scenario.beta)
        if learner.get("blocks", 1) != "plan":
            count = _blocks(learner, count)
            rows = spanning.rows_of(chances, bottom, scenario.beta, count)
        text = "R m, m the least with P(sum_i Geometric(p q_i) > m) <= (beta - b^R)/R, q_i = (1 - 2^(i-d))^2/X"
        return fixed(count * rows, text, PAPER + "Claim B.2, exact tail; docs/errata.md, item 9")

    def complete(self, task: Task, n: int | None) -> dict[str, Any]:
        """Fill in ``rule``, ``epsilon`` and ``blocks``."""
        learner = _settings(task.scenario, task.paper)
        if learner.get("blocks") == "plan":
            learner["blocks"] = _least(task, learner)
        return learner

    def people(self, task: Task, learner: dict[str, Any]) -> PlannedValue:
        """Return n: what the statistics ask for; the privacy is the same for every n."""
        text = "R blocks of full rank; any n is as private"
        return follow(task.scenario.curator.n, lambda: task.sample, text, PAPER + "Appendix B")

    def planned_values(self, task: Task, learner: dict[str, Any]) -> dict[str, PlannedValue]:
        """Return R."""
        text, source = "least R with b^R < beta and the fewest records", PAPER + "Appendix B"
        if task.paper:
            text, source = "log_{4/3}(2/beta)", PAPER + "Corollary B.3"
        asked = task.scenario.curator.settings.get("blocks", 1)
        return {"blocks": follow(asked, lambda: _least(task, learner), text, source)}


def _settings(scenario: Scenario, paper: bool) -> dict[str, Any]:
    """Return the settings with everything but ``blocks`` filled in."""
    learner = dict(scenario.curator.settings)
    if learner.get("rule") == "plan":
        learner["rule"] = "printed" if paper else "tight"
    if learner.get("epsilon") == "plan":
        whole, rounds = scenario.curator.epsilon, scenario.curator.rounds
        if whole is None:
            raise BadScenario("planning the parity learner's epsilon needs the curator's")
        # The sum of several is rounded up where it is priced.
        learner["epsilon"] = whole if rounds in ("plan", 1) else down(whole / int(rounds))
    return learner


def _chances(scenario: Scenario, learner: dict[str, Any]) -> tuple[Floats, float]:
    """Return p q_i for i = 0..d-1, and b."""
    rule = learner.get("rule", "tight")
    if rule not in ("tight", "printed"):
        raise BadScenario(f"curator.learner.rule must be tight or printed, found {rule!r}")
    kept, answers = rates(cast(Rule, rule), number(learner, "epsilon"))
    divergence = scenario.divergence
    chances = spanning.escapes(scenario.source.dimension, divergence.chi_squared, divergence.supremum)
    return kept * chances, 1.0 - answers


def _blocks(learner: dict[str, Any], planned: int) -> int:
    asked = learner.get("blocks", 1)
    return planned if asked == "plan" else int(number(learner, "blocks", 1.0))


def _paper_rows(scenario: Scenario, learner: dict[str, Any]) -> int:
    dimension, divergence = scenario.source.dimension, scenario.divergence
    return spanning.paper_rows(dimension, scenario.beta, divergence.chi_squared, number(learner, "epsilon"))


def _least(task: Task, learner: dict[str, Any]) -> int:
    if task.paper:
        return spanning.paper_blocks(task.scenario.beta)
    return spanning.blocks(*_chances(task.scenario, learner), task.scenario.beta)[0]
