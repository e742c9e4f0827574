"""Open a hosted population on a scenario: claim its state directory, find its people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from common.core.durable import claim, claim_people
from common.core.errors import BadInput
from common.data.population import open_records
from common.lifetime.charging import USERS_OWN, Charging
from common.local.hypotheses.hypothesis import ordinary_kinds
from common.numerics.randomness import RandomSource, durable_secret, subseed
from common.planning.accepting import check_real
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import data_folder
from local_agent.hosted.asking import Values, evaluated
from local_agent.hosted.population import Population
from local_agent.policy import ALL_HYPOTHESES, ALL_QUERIES, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from common.lifetime.account import Account
    from common.log.witness import Witness


def open_population(
    scenario: ResolvedScenario,
    folder: Path,
    seed: int | None,
    referee: str,
    agents: int | None,
    workers: int = 0,
    charging: Charging = USERS_OWN,
    queries: frozenset[str] = ALL_QUERIES,
    witnesses: Sequence[Witness] = (),
) -> Population:
    """Return the hosted population of a resolved scenario.

    Parameters
    ----------
    scenario
        Resolved; ``target`` says who the people are, ``agents`` what they agree to.
    folder
        State directory; bound to the people and the seed at the first start.
    seed
        Seed of simulated people; None uses the one of the first start (0 then). Ignored where people are real.
    referee
        The referee's public key, pinned.
    agents
        How many to host; by default as many as the scenario wants. A table may have more people, whom nobody asks then:
        their number is data.
    workers
        Workers of a Ray cluster that draw simulated people and evaluate questions on them; 0: this process does.
    charging
        Where the people of a table are charged, before the first of them is asked.
    queries
        Kinds of queries that they accept.
    witnesses
        Who is shown each question before it is answered, so that a copy of the folder is refused.

    Raises
    ------
    BadInput
        If workers are wanted for real people, whose records stay here.
        If real people would be asked without any privacy.
    BudgetExceeded
        If the people have spent their lifetime budget in other runs.
    """
    section, simulated = scenario.agents, scenario.people == "simulated"
    epsilon, delta = section.mechanism.guarantee
    check_real(scenario)
    if workers and not simulated:
        raise BadInput("people are real: their records stay in this process, so leave out the workers")
    if scenario.target.table is not None and agents is not None:
        raise BadInput(
            "the people of a table are hosted together, agents.count of them, so that nobody is hosted twice: leave "
            "out the number of agents"
        )
    wanted = agents if agents is not None else section.count
    facts = claim(
        folder,
        {"target": scenario.target.fingerprint(), "agents": wanted, "seed": seed if simulated else None},
    )
    seed = facts["seed"] if facts["seed"] is not None else 0
    source = RandomSource.seeded(seed, "agents") if simulated else durable_secret(folder / "secret.key")
    order = None if simulated else source.derive("order")
    population = open_records(scenario.target, data_folder(scenario), subseed(seed, "target"), wanted, order)
    claim_people(folder, population.fingerprint())
    account: Account | None = None
    if charging.charges(scenario, "target"):
        from common.lifetime.account import Account  # simulated people need neither tables nor a database

        account = Account(charging, scenario, "target")
        account.identify(population)
    policy = Policy(referee, epsilon, delta, queries, ALL_HYPOTHESES if simulated else ordinary_kinds())
    values: Values = evaluated
    if workers:
        from local_agent.hosted.cluster import over_workers

        values = over_workers(workers)
    dropout = subseed(seed, "dropout")
    return Population(
        population,
        policy,
        folder,
        source,
        dropout=section.dropout,
        seed=dropout,
        values=values,
        account=account,
        witnesses=witnesses,
    )
