"""Real people's parties in one process, halted in the middle of a run: what is on disk then is what faults find."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from common.core.machine import Schedule
from common.crypto.identity import Identity
from common.lifetime.charging import Charging
from common.local.records import Records
from common.log.witness import FileWitness
from common.scenario.scenario import ResolvedScenario
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.service.witness import WitnessLog
from tests.common.data.test_people import TREE, own
from tests.support import TOKEN, Bench, Halted

RECORD = Records(np.full((1, 2), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))


class Placed(FileWitness):
    """A witness that is a file, and is found again in a copy of its folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.place = "the heads"


def scenario(data: Path) -> ResolvedScenario:
    """Return a scenario whose curator and 60 hosted people are real, and stand in files in a folder."""
    data.mkdir(exist_ok=True)
    settings = {"count": 60, "mechanism": {"name": "warner", "epsilon": 1.0}, "deadline": 5.0}
    curator = {**TREE["curator"], "lifetime": {"epsilon": 95.0, "delta": 0.05}}
    return own(data, agents=settings, curator=curator)


class Town(Bench):
    """A bench of real people with a ledger of their own, witnesses, and one individual beside the host."""

    def __init__(self, folder: Path, chosen: ResolvedScenario, *, witnessed: bool = True) -> None:
        place = folder / "witness"
        place.mkdir(exist_ok=True)
        watching = [WitnessLog(place / "runs", Identity.load_or_create(place / "identity.key"))] if witnessed else []
        ways: dict[str, Any] = {"watching": watching, "charging": Charging(folder / "people"), "lease": 0.2}
        super().__init__(folder, chosen, seed=None, witnesses=[Placed(folder / "heads")], **ways)
        key = self.referee.identity.public
        self.halts = False
        with self._opened as opened:
            agent = opened.enter_context(closing(Agent(RECORD, PersonalPolicy(key, 1.0), folder / "agent")))
            schedule = Schedule(lambda: 0.0, lambda seconds: None)
            self.hosts = [self.host, Host(agent, self.referee, key, schedule=schedule)]
            self.hosts[1].enrol(TOKEN)
            self._opened = opened.pop_all()

    def wait(self, seconds: float) -> None:
        """Do what is to be done while a question is open, let everybody work who is asked, or let the seconds pass."""
        if self.hooks:
            self.hooks.pop(0)()
        busy = [host.step() for host in self.hosts if not host.finished]
        if self.halts and any(busy):
            raise Halted
        if not any(busy):
            self.clock.wait(seconds)

    def stored(self) -> int:
        store = self.referee.store
        return sum(report.answered for q in store.questions("run") for report in store.reports(q))

    def run(self, name: str = "run") -> dict[str, Any]:
        """Carry the run to its end, or on from where it was."""
        self.referee.create(name, self.chosen.wire(), None)
        while not self.referee.drive():  # the lease of one that is lost runs out first
            time.sleep(0.02)
        return self.referee.execute(name)
