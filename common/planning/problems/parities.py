"""How many people a parity takes: shared by the problems in which the curator learns one."""

from __future__ import annotations

from common.core.errors import BadScenario
from common.core.values import PLAN
from common.learners.parity import OpenParity
from common.planning.planned_values import CORRECTIONS, PlannedValue, fixed, follow
from common.planning.spanning import blocks, escapes, rows_of
from common.privacy.theorems.klnrs import rates
from common.scenario.scenario import Scenario


def parity_figures(scenario: Scenario, dimension: int, beta: float, useful: float = 1.0) -> dict[str, PlannedValue]:
    """Return n, and the learner's ``blocks`` and ``epsilon``, with which the parity is learned with chance 1 - beta.

    The learner's rule is the scenario's own (``tight`` or ``paper``); how many records a rule takes is computed
    exactly, as in :mod:`common.planning.spanning`, where papers have orders of magnitude.

    Parameters
    ----------
    dimension
        Length of the parity; the features are uniform.
    useful
        Share of the records that say something about it; the others say 0 = 0.
    """
    settings, curator = scenario.curator.settings, scenario.curator
    if curator.epsilon is None:
        raise BadScenario("curator.epsilon: a parity is learned privately, give one")
    if not isinstance(settings, OpenParity):
        raise BadScenario(f"curator.learner: a parity is learned by the learner 'parity', found {settings.name!r}")
    if settings.rule == PLAN:
        raise BadScenario("curator.learner.rule must be tight or paper, found 'plan'")
    epsilon = curator.epsilon if settings.epsilon == PLAN else settings.epsilon
    kept, answers = rates(settings.rule, epsilon)
    chances, bottom = useful * kept * escapes(dimension, 1.0, None), 1.0 - answers
    count, rows = blocks(chances, bottom, beta)
    if settings.blocks != PLAN:
        count = settings.blocks
        rows = rows_of(chances, bottom, beta, count)
    text = "R m, m the least with P(sum_i Geometric(p u q_i) > m) <= (beta' - b^R)/R, q_i = 1 - 2^(i-c)"
    return {
        "n": follow(curator.n, lambda: count * rows, text, CORRECTIONS + "KLNRS"),
        "blocks": fixed(count, "R with the fewest records, b^R < beta'", CORRECTIONS + "KLNRS"),
        "epsilon": fixed(epsilon, "the curator's", CORRECTIONS + "KLNRS"),
    }
