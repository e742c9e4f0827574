"""A referee, a page for it and who serves that, for the tests of the page in real browsers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from common.scenario import loading
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario
from curator.startup import open_curator
from deploy.deployment import RunOutput
from deploy.people import serving
from deploy.remote import Remote
from local_agent.host import Host
from local_agent.hosted.population import open_population
from referee.audit.audit import audit
from referee.service.referee import Referee
from tests.local_agent.web.people import page_of, scenario_file
from tests.support import TOKEN, leave_folder, operated
from tests.tandem.ui.asking import scrolls_sideways, violations

BROWSERS = [
    pytest.param("chromium", marks=pytest.mark.xdist_group("chromium")),
    pytest.param("firefox", marks=[pytest.mark.xdist_group("firefox"), pytest.mark.thorough]),
]
"""In Firefox CI has one person answer (``test_mixed.py``); the thorough tests try there what CI tries in Chromium."""
CHROMIUM = pytest.mark.parametrize("browser", BROWSERS[:1], indirect=True)  # what no browser does differently
PHONE = {"viewport": {"width": 360, "height": 720}, "color_scheme": "light"}
OTHERS = 35  # the fewest with whom the protocol promises something


@dataclass
class World:
    """A referee, a page for it and who serves that, and what has reached the referee's store."""

    folder: Path
    referee: Referee
    remote: Remote
    chosen: ResolvedScenario
    page: str
    running: Future[RunOutput] = field(default_factory=Future)

    @property
    def link(self) -> str:
        return f"{self.page}/#referee=x&key={self.referee.identity.public}&invitation={TOKEN}"

    def write_page(self, *more: str) -> None:
        shutil.rmtree(self.folder / "page")
        status, output = page_of(self.folder, self.remote.url, *more, key=self.referee.identity.public)
        assert status == 0, output

    def start(self) -> None:
        pool = ThreadPoolExecutor(1)
        self.running = pool.submit(self.remote.run, self.chosen, 1, "run", lambda text, numbers: None)

    def cancel(self) -> None:
        self.remote.ask_to_cancel("run")
        wait([self.running], 120)

    def end(self) -> RunOutput:
        """Wait for the run's end, and audit it."""
        finished = self.running.result(120)
        assert audit(leave_folder(self.folder / "left", self.chosen, 1, finished)).status == finished.result["status"]
        return finished


@contextmanager
def people(folder: Path) -> Iterator[World]:
    """Serve a referee and a page; all who are asked but one are hosted, and answer at once."""
    for name, count in (("members", 10), ("people", OTHERS)):
        (folder / f"{name}.csv").write_text("age,travels,sport\n" + "30,car,no\n" * count)
    (folder / "page").mkdir()
    path = str(scenario_file(folder))
    chosen, hosted = (
        resolve(loading.load(path, ["people=simulated", f"agents.count={count}"])) for count in (OTHERS + 1, OTHERS)
    )
    with ExitStack() as opened:
        address = opened.enter_context(serving(folder / "page"))
        curator = opened.enter_context(closing(open_curator(chosen, folder / "curator", 1, None)))
        referee, _, remote = opened.enter_context(operated(folder, curator, address))
        referee.registrar.allow("individual", TOKEN)
        world, key = World(folder, referee, remote, chosen, address), referee.identity.public
        world.write_page()
        population = opened.enter_context(closing(open_population(hosted, folder / "agents", 1, key, None)))
        host, over = Host(population, referee, key), Event()
        host.enrol(TOKEN)

        def answer() -> None:
            while not over.wait(0.1):
                host.step()

        others = Thread(target=answer)
        others.start()
        opened.callback(others.join)
        opened.callback(over.set)
        yield world


def check_looks(page: Any) -> None:
    assert violations(page) == []
    assert not scrolls_sideways(page)
