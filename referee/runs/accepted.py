"""Whether enrolled agents accept what a run will ask: found out before the curator is charged.

Agents say at enrolment what their own rules refuse (:class:`common.wire.messages.AgentPolicy`). That binds nobody: an
agent that is asked checks the question itself, and may decline it. But a run whose questions all would decline costs
the curator's people their budget for nothing, so it is refused while nothing is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from common.core.errors import PolicyRefused
from common.scenario.resolved import ResolvedScenario
from common.wire.messages import AgentPolicy

Policies = Sequence[tuple[AgentPolicy, int]]
"""What agents said at enrolment, each with the number of agents who said the same."""


def check_accepted(asks: Iterable[str], scenario: ResolvedScenario, policies: Policies, enrolled: int) -> str | None:
    """Refuse a run that asks what no enrolled agent accepts; else say how many do not, None if all do.

    Parameters
    ----------
    asks
        The kinds of queries that the run may ask.
    enrolled
        How many agents there are; those without a policy are taken to accept everything.

    Raises
    ------
    PolicyRefused
        Naming the kind, and why how many refuse it.
    """
    most = 0, ""
    for kind in sorted(asks):
        found: dict[str, int] = {}
        for policy, agents in policies:
            why = _why_not(kind, scenario, policy)
            if why is not None:
                found[why] = found.get(why, 0) + agents
        refusing, reasons = sum(found.values()), ", ".join(f"{agents:,} {why}" for why, agents in found.items())
        if 0 < enrolled <= refusing:
            raise PolicyRefused(
                f"no enrolled agent accepts questions of kind {kind!r}, which this run asks: {reasons}; nobody was "
                "asked, and nothing of the curator's budget is spent. Change the scenario, or have agents enrol that "
                "accept it (local-agent answer --accept, --refuse, --epsilon)"
            )
        most = max(most, (refusing, f"questions of kind {kind!r}: {reasons}"))
    return f"{most[0]:,} of {enrolled:,} enrolled agents do not accept {most[1]}" if most[0] else None


def _why_not(kind: str, scenario: ResolvedScenario, policy: AgentPolicy) -> str | None:
    """Return why an agent does not accept questions of a kind, by the rules of its own policy; None if it does."""
    epsilon, delta = scenario.agents.mechanism.guarantee
    if policy.epsilon is not None and (epsilon > policy.epsilon or delta > (policy.delta or 0.0)):
        return f"have a lifetime budget below (epsilon, delta) = ({epsilon:g}, {delta:g}), the cost of an answer"
    if policy.features < scenario.target.dimension:
        return f"have records of fewer than {scenario.target.dimension} features"
    return "refuse this kind" if kind in policy.refuses else None
