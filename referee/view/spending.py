"""The one question of ``referee run`` before it spends what real people have only once."""

from __future__ import annotations

import typer

from common.core.errors import BadInput
from common.core.terminal import say
from common.net.cli import has_terminal
from common.scenario.fitting import noise_alone
from common.scenario.forecasting import forecast
from common.scenario.scenario import ResolvedScenario


def check_spending(chosen: ResolvedScenario, *, yes: bool, anyway: bool) -> None:
    """Ask whether to spend real people's budgets; BadInput where they are not to be spent. Experiments are not asked.

    Args:
        yes: It was agreed to beforehand.
        anyway: Spend also where the forecast says that noise alone would decide.
    """
    if chosen.people == "simulated" or chosen.experiment:
        return
    n, agents = int(chosen.curator.n), int(chosen.agents.count)
    why = noise_alone(chosen, n, agents)
    if why is not None and not anyway:
        raise BadInput(
            f"noise alone would decide, and these people have their budget only once: {why}. Nothing was charged; "
            f"--anyway spends it all the same"
        )
    if yes:
        return
    if not has_terminal():
        raise BadInput(
            "cannot ask whether to spend real people's budgets, since there is no terminal: run this on a terminal, or "
            "agree beforehand, with --yes; nothing was charged"
        )
    for line in (*_budgets(chosen, n, agents), forecast(chosen, agents) or "There is no forecast of what it will show"):
        say(f"{line}.", error=True)
    if not typer.confirm("Spend this?", err=True):
        raise BadInput("not confirmed: nothing was charged")


def _budgets(chosen: ResolvedScenario, n: int, agents: int) -> tuple[str, ...]:
    curator, mechanism = chosen.curator, chosen.agents.mechanism
    if curator.epsilon is None:
        promised = "no privacy: epsilon is null"
    else:
        promised = f"epsilon {curator.epsilon:g}, delta {curator.delta or 0.0:g} for the whole run"
    epsilon, delta = mechanism.guarantee
    of_agents = f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else "")
    return (
        f"Their budget: {n:,} people who trust the curator: {promised}",
        f"Their budget: up to {agents:,} people who trust their own device: {of_agents} for each answer",
    )
