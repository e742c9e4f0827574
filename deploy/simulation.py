"""Simulate a protocol on one scenario: the parties' computations, without their messages, ledgers and keys.

The computations use the code that serves real people: the protocol's script, the curator's operations on its weighted
sample, the agents' queries and mechanisms. The service parts are left out: nothing is signed, charged or stored, and no
budget is enforced. So it is for simulated people only, and fast enough for many repetitions.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from common.core.errors import BadScenario
from common.data.population import TableRecordSource, open_records
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.packing import fill_mask, mask_bytes
from common.local.queries.query import Answers, AskAgents, MassAnswers, Query
from common.local.records import Records
from common.net.messages import MAX_LISTED, OrderCommitment
from common.numerics.randomness import RandomSource, subseed
from common.operations.operation import Learn
from common.protocols.base import AskCurator, Progress, Testing
from common.scenario.scenario import ResolvedScenario, public_sample
from curator.engine import CuratorPolicy, Engine
from curator.sample.base import LocalSample, Sample
from curator.startup import check_room, open_sample
from local_agent.answers import answer_mass, answer_together
from referee.collection.order import Order, commitment, form_mass, public_randomness, simulated
from referee.collection.roster import Roster
from referee.protocols.base import Outcome, protocol_of
from referee.protocols.driver import begun, drive
from referee.service.referee import public
from referee.tables import Cohort, Part, Participant

Hook = Callable[[int, Hypothesis], None]
"""Called with the round, from 1, and its hypothesis, as soon as that is learned."""


def local_curator(scenario: ResolvedScenario, sample: Sample, seed: int) -> Engine:
    """Return the bare engine of :class:`curator.curator.Curator`, on people that were never reweighed.

    It has the public sample and the randomness of the run's seed, so it learns the same hypotheses as that curator.
    """
    public_people = public_sample(scenario, seed)
    policy = CuratorPolicy.from_scenario(scenario, sample, public_people)
    return Engine(policy, sample, RandomSource.seeded(seed, "curator"), public=public_people)


class SimulatedAgents:
    """People of T who answer in the referee's order; people and answers equal a hosted population's for the same seed.

    ``people`` are the agents' records, if available; None: they are drawn from the scenario's distribution.
    BadScenario if the scenario has dropout.
    """

    def __init__(self, scenario: ResolvedScenario, seed: int, people: Records | None = None) -> None:
        section = scenario.agents
        if section.dropout:
            raise BadScenario("in a simulation every agent answers: set agents.dropout=0")
        size = int(section.count)
        if people is None:
            self._population = open_records(scenario.target, None, subseed(seed, "target"), size)
        else:
            self._population = TableRecordSource(people.take(np.arange(size)))
        self._order = Order(simulated(seed), len(self._population))
        self._cohort = Cohort(0, len(self._population), simulated(seed), 0)
        self._mechanism = section.mechanism
        self._source = RandomSource.seeded(seed, "agents")
        self._used = 0
        self._asked: dict[int, Part] = {}

    def answer(self, number: int, step: AskAgents) -> Answers:
        """Ask the next people, or all that are left, or those of an earlier question again."""
        query = step.query
        fresh = Part(0, self._used, min(self._used + step.count, len(self._population)))
        part = self._asked[number] = fresh if step.again is None else self._asked[step.again]
        self._used = max(self._used, part.stop)
        if part.stop - part.start > MAX_LISTED:
            return self._answer_mass(query, part)
        people = self._order.slice(part.start, part.stop - part.start)
        slots = np.arange(len(people))
        answers = answer_together(query, self._mechanism, self._population, people, slots, self._source)
        return Answers(len(people), answers, slots)

    def _answer_mass(self, query: Query, part: Part) -> Answers:
        people = len(self._population)
        batch = form_mass((part,), lambda first: self._cohort, Roster([Participant("0" * 64, 0, people)]))
        answers = answer_mass(query, self._mechanism, self._population, batch.mask, 0, self._source)
        mask = np.zeros(mask_bytes(batch.asked), dtype=np.uint8)
        fill_mask(mask, 0, batch.asked)
        return MassAnswers(batch.asked, answers, mask)


def conduct(
    scenario: ResolvedScenario,
    seed: int,
    hook: Hook,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    records: tuple[Records, Records] | None = None,
) -> Outcome:
    """Run a scenario's protocol once.

    BadScenario if the people are real, whom only a service may ask, or if there is no room for the sample.

    Args:
        seed: Determines everything: every deployment of the scenario with this seed has the same outcome.
        records: Public records of the curator's people and of the agents, in random order. None: both are drawn from
            the scenario's distributions.
    """
    if scenario.people == "real":
        raise BadScenario("people are real: a simulation enforces no budget, so it takes simulated people only")
    with tempfile.TemporaryDirectory(prefix="tandem-simulation-") as folder, ExitStack() as opened:
        check_room(scenario, Path(folder))
        sample: Sample
        if records is None:
            sample = open_sample(scenario, Path(folder), subseed(seed, "source"), lambda text: None)
        else:
            sample = LocalSample.from_records(records[0])
        opened.callback(sample.close)
        curator = local_curator(scenario, sample, seed)
        simulated_agents = SimulatedAgents(scenario, seed, None if records is None else records[1])

        def exchange(number: int, step: AskCurator | AskAgents) -> Any:
            if isinstance(step, AskAgents):
                return simulated_agents.answer(number, step)
            result = curator.perform(str(number), step.operation)
            if isinstance(step.operation, Learn) and scenario.problem is None:
                hook(step.operation.round, result.hypothesis)
            return result.wire()

        people = int(scenario.agents.count)
        promised = OrderCommitment(first=0, agents=people, used=0, sha256=commitment(simulated(seed)))
        protocol = protocol_of(scenario)
        script = begun(protocol, scenario, public_randomness(public(scenario), [promised]))

        def noticed(note: Progress) -> None:
            if on_progress is not None and not isinstance(note, Testing):
                on_progress(note)

        return drive(script, protocol.pattern, exchange, noticed)
