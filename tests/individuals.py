"""Individual agents over real HTTP, many in one event loop: each has its own key, record, rules and state directory."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from common.crypto.identity import Signed
from common.data.population import open_records
from common.log.receipts import check_receipt
from common.numerics.randomness import subseed
from common.scenario.scenario import ResolvedScenario, data_folder
from local_agent.person.agent import Agent
from local_agent.policy import PINNED, PersonalPolicy
from tests.support import TOKEN


def individuals(chosen: ResolvedScenario, folder: Path, seed: int, referee: str, answers: int = 1) -> list[Agent]:
    """Return an agent for each person of the scenario's population, with the record that a host would have.

    Their lifetime budgets pay for so many answers.
    """
    people = open_records(chosen.target, data_folder(chosen), subseed(seed, "target"), chosen.agents.count)
    epsilon, delta = chosen.agents.mechanism.guarantee
    policy = PersonalPolicy(referee, answers * epsilon, answers * delta)
    return [
        Agent(people.records(np.array([i]), None), policy, folder / f"agent-{i}") for i in range(chosen.agents.count)
    ]


class Crowd:
    """Agents that take part until they have answered, or until the run is over."""

    def __init__(self, address: str, referee: str, agents: list[Agent]) -> None:
        self._address, self._referee, self._agents = address, referee, agents
        self._configurations: dict[str, Signed] = {}
        self._enrolled, self._over = threading.Event(), False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._take_part()))
        self.answered = 0

    def start(self) -> None:
        """Let them come; return once all are enrolled."""
        self._thread.start()
        self._enrolled.wait()

    def close(self) -> None:
        """Let them go, and wait until the last has gone."""
        self._over = True
        self._thread.join()
        for agent in self._agents:
            agent.close()

    async def _take_part(self) -> None:
        limits = httpx.Limits(max_connections=900)
        async with httpx.AsyncClient(base_url=self._address, limits=limits, timeout=600, trust_env=False) as client:
            try:
                for agent in self._agents:  # one after the other: number i is person i
                    await self._enrol(client, agent)
            finally:
                self._enrolled.set()
            await asyncio.gather(*(self._one(client, agent) for agent in self._agents))

    async def _enrol(self, client: httpx.AsyncClient, agent: Agent) -> None:
        signed = agent.enrolment(again=agent.answered > 0)
        await self._post(client, "/v1/enrolments", signed, {"Authorization": f"Bearer {TOKEN}"})

    async def _one(self, client: httpx.AsyncClient, agent: Agent) -> None:
        poll = agent.identity.sign("poll", {"participant": agent.identity.public})
        while not self._over:
            found = await self._post(client, "/v1/polls", poll)
            if found is None:
                continue
            run = found.message["run"]
            if run not in self._configurations:
                self._configurations[run] = Signed.parse((await client.get(f"/v1/runs/{run}/configuration")).json())
            report = agent.answer(found, self._configurations[run])
            answer = await client.put(f"/v1/reports/{report.message['report_id']}", content=report.raw())
            receipt = Signed.parse(answer.raise_for_status().json())
            check_receipt(receipt, report, self._referee, PINNED)
            agent.keep_receipt(receipt)
            self.answered += 1
            if agent.finished:
                return
            await self._enrol(client, agent)

    async def _post(self, client: httpx.AsyncClient, path: str, signed: Signed, headers: Any = None) -> Signed | None:
        response = await client.post(path, content=signed.raw(), headers=headers)
        if response.raise_for_status().status_code != 204:
            return Signed.parse(response.json())
        until = time.monotonic() + min(float(response.headers.get("retry-after", 0)), 1.0)
        while time.monotonic() < until and not self._over:
            await asyncio.sleep(0.1)
        return None
