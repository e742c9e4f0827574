"""Real people's parties in one process, halted in the middle of a run: what is on disk then is what faults find."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common.core.machine import Schedule
from common.crypto.identity import Identity
from common.lifetime.charging import Charging
from common.local.records import Records
from common.log.witness import FileWitness
from common.scenario.scenario import ResolvedScenario
from curator.startup import open_curator
from deploy.deployment import RunOutput
from local_agent.host import Host
from local_agent.hosted.population import open_population
from local_agent.person.agent import Agent
from local_agent.policy import PersonalPolicy
from referee.runfolder import pack_reports
from referee.service.referee import Referee, RefereeSettings
from referee.witness_log import WitnessLog
from tests.clocks import Clock
from tests.common.data.test_people import TREE, own
from tests.support import TOKEN, Halted

RUN = "run"
DIMENSION = 2
"""Features of a record: the column, and a constant."""


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


class Town:
    """Curator, its people's ledger, witnesses, referee, a host and one individual; opened from a folder."""

    def __init__(self, folder: Path, chosen: ResolvedScenario, opened: ExitStack, witnessed: bool = True) -> None:
        heads = Placed(folder / "heads")
        self.curator = open_curator(
            chosen, folder / "curator", None, None, witnesses=[heads], charging=Charging(folder / "people")
        )
        opened.callback(self.curator.close)
        self._clock = Clock()
        own = folder / "witness"
        own.mkdir(exist_ok=True)
        watching = [WitnessLog(own / "runs", Identity.load_or_create(own / "identity.key"))] if witnessed else []
        ways: dict[str, Any] = {
            "wait": self.wait,
            "clock": self._clock,
            "witnesses": watching,
            "settings": RefereeSettings(lease=0.2),
        }
        self.referee = Referee(folder / "referee", self.curator, **ways)
        opened.callback(self.referee.close)
        self.referee.allow("enrolment", TOKEN)
        key = self.referee.identity.public
        population = open_population(chosen, folder / "host", None, key, None)
        opened.callback(population.close)
        record = Records(np.full((1, DIMENSION), 0.1, dtype=np.float32), np.ones(1, dtype=np.int8))
        agent = Agent(record, PersonalPolicy(key, 1.0), folder / "agent")
        opened.callback(agent.close)
        schedule = Schedule(lambda: 0.0, lambda seconds: None)
        self.hosts = [Host(each, self.referee, key, schedule=schedule) for each in (population, agent)]
        for host in self.hosts:
            host.enrol(TOKEN)
        self.halts = False
        self.meanwhile: list[Callable[[], None]] = []
        self._chosen = chosen

    def wait(self, seconds: float) -> None:
        """Do what is to be done while a question is open, let everybody work who is asked, or let the seconds pass."""
        if self.meanwhile:
            self.meanwhile.pop(0)()
        busy = [host.step() for host in self.hosts if not host.finished]
        if self.halts and any(busy):
            raise Halted
        if not any(busy):
            self._clock.wait(seconds)

    def stored(self) -> int:
        store = self.referee.store
        return sum(report.answered for q in store.questions(RUN) for report in store.reports(q))

    def run(self) -> RunOutput:
        """Carry the run to its end, or on from where it was."""
        self.referee.create(RUN, self._chosen.wire(), None)
        while not self.referee.drive():  # the lease of one that is lost runs out first
            time.sleep(0.02)
        result = self.referee.execute(RUN)
        store = self.referee.store
        reports = tuple((q.question, pack_reports(store.reports(q))) for q in store.questions(RUN))
        transcript = "".join(line + "\n" for line in store.entries(RUN))
        return RunOutput(result, transcript, self.referee.participants(RUN), reports, tuple(self.referee.kept(RUN)))


@contextmanager
def town(folder: Path, chosen: ResolvedScenario, *, witnessed: bool = True) -> Iterator[Town]:
    """Open all parties, and let go of them as a crash does."""
    with ExitStack() as opened:
        yield Town(folder, chosen, opened, witnessed)
