"""One run in which agents in Python and people with browsers answer beside each other, over HTTP and TLS, audited.

    python -m benchmarks.mixed [--python 300] [--chromium 16] [--firefox 4]

Curator and referee are processes; every agent in Python has a key, a state and a connection of its own, and every
person at a browser a context of its own. Browsers verify the certificates of page and referee: the run's authority is
in their databases (certutil of libnss3-tools). Exit status 1 unless all answers are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

import curator
import referee
from benchmarks import browsers
from common.core.errors import RunFailed
from common.core.machine import python_environment, python_module
from common.crypto.identity import Identity
from common.local.records import Records
from common.net.certificates import make_all, names_of
from common.net.tls import CA, CertificateFiles, server_context
from deploy.people import serving
from deploy.processes import PartyProcess, free_port
from local_agent.client import RefereeClient
from local_agent.host import Host
from local_agent.person.agent import Agent
from local_agent.policy import ALL_QUERIES, PersonalPolicy
from tests.local_agent.web.people import Person, page_of, scenario_file

THREADS = 20  # threads that the agents in Python share
PATIENCE = 600_000  # milliseconds that a browser waits for the next step


class Place(NamedTuple):
    """The parties, and how to reach them."""

    folder: Path
    referee: str
    key: str
    page: str
    environment: dict[str, str]

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of the referee's operator."""
        everything = [*python_module(f"{referee.__name__}.cli"), *arguments]
        return subprocess.Popen(
            everything,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self, running: subprocess.Popen[str]) -> str:
        """Return the output of a command; RunFailed if it failed."""
        printed, _ = running.communicate()
        if running.returncode:
            raise RunFailed(printed)
        return printed


@contextmanager
def parties(folder: Path, people: int) -> Iterator[Place]:
    """Start a curator, and a referee with TLS, and serve the page with TLS as well."""
    make_all(folder / "tls", names_of(()), days=30)
    for name, count in (("members", 10), ("people", people)):
        (folder / f"{name}.csv").write_text("age,travels,sport\n" + "30,car,no\n" * count)
    (folder / "page").mkdir()
    scenario = str(scenario_file(folder, count=people))
    tokens = {f"TANDEM_{name}_TOKEN": secrets.token_hex(16) for name in ("ENROLMENT", "OPERATOR")}
    own = {CA: str(folder / "tls" / "public" / "ca.pem"), "XDG_STATE_HOME": str(folder / "state")}
    ports, key = [free_port(), free_port()], Identity.load_or_create(folder / "referee" / "identity.key").public
    shown = folder / "tls" / "referee" / "server.pem"
    with ExitStack() as opened:
        opened.enter_context(patch.dict(os.environ, own))
        page = opened.enter_context(serving(folder / "page", server_context(CertificateFiles.of("page", shown, None))))
        curators = f"http://127.0.0.1:{ports[0]}"
        served = ["--curator", curators, "--tls-cert", str(shown), "--allow-origin", page]
        for name, port, arguments in (
            (curator.__name__, ports[0], [scenario, "--seed", "1", "--referee-key", key]),
            (referee.__name__, ports[1], served),
        ):
            where = ["--port", str(port), "--state", str(folder / name)]
            party = PartyProcess(name, [f"{name}.cli", "serve", *arguments, *where], folder, {**tokens, **own})
            opened.callback(party.stop)
            party.wait_for("listens on")
        address = f"https://127.0.0.1:{ports[1]}"
        status, output = page_of(folder, address, key=key, agents={"count": people})
        if status:
            raise RunFailed(output)
        yield Place(folder, address, key, page, {**python_environment(), **tokens, **own})


class Python:
    """People whose agents are in Python: all are enrolled at once, and answer from :meth:`answer` on."""

    def __init__(self, place: Place, codes: list[str]) -> None:
        self._opened = ExitStack()
        self._pool = self._opened.enter_context(ThreadPoolExecutor(THREADS))
        self._hosts = list(self._pool.map(lambda each: self._enrolled(place, *each), enumerate(codes)))
        self._over = threading.Event()

    def _enrolled(self, place: Place, number: int, code: str) -> tuple[Agent, Host]:
        features = np.array([[0.0, *(number % 3 == each for each in range(3))]], dtype=np.float32)
        record = Records(features, np.ones(1, dtype=np.int8))
        agent = Agent(record, PersonalPolicy(place.key, 1.0, queries=ALL_QUERIES), place.folder / f"agent-{number}")
        self._opened.callback(agent.close)
        client = self._opened.enter_context(closing(RefereeClient(place.referee, patience=120)))
        host = Host(agent, client, place.key)
        host.enrol(code)
        return agent, host

    def answer(self) -> None:
        """Have them poll and answer, in their own threads, until all have answered or :meth:`close` is called."""

        def some(first: int) -> None:
            waiting = self._hosts[first::THREADS]
            while waiting and not self._over.wait(0.05):
                for _, host in waiting:
                    host.step()
                waiting = [each for each in waiting if not each[1].finished]

        self._answering = [self._pool.submit(some, first) for first in range(THREADS)]

    def close(self) -> int:
        """Stop them; return how many have a receipt."""
        self._over.set()
        for each in self._answering:
            each.result()
        self._opened.close()
        return sum(agent.answered for agent, _ in self._hosts)


def measure(folder: Path, python: int, at_browsers: dict[str, int]) -> bool:
    """Execute the run; return whether all answers are counted, according to every party."""
    begun, people = time.monotonic(), python + sum(at_browsers.values())

    def tell(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    with parties(folder, people) as place, browsers.driver() as playwright, ExitStack() as opened:
        invite = ["invite", "--count", str(people), "--page", f"{place.page}/", "--referee", place.referee]
        invited = place.ended(place.command(*invite, "--state", str(folder / "referee")))
        links = [line for line in invited.splitlines() if line.startswith("https://")]
        codes = [link.partition("invitation=")[2].partition("&")[0] for link in links]
        crowd = Python(place, codes[:python])
        tell(f"{python} agents in Python are enrolled")
        persons, rest = [], iter(links[python:])
        for name, count in at_browsers.items():
            if not count:
                continue
            authority = folder / "tls" / "public" / "ca.pem"
            browser = getattr(playwright, name).launch(**browsers.trusting(name, authority, folder / name))
            for _ in range(count):
                context = opened.enter_context(closing(browser.new_context()))
                persons.append(Person(context, next(rest)))
                context.set_default_timeout(PATIENCE)
                persons[-1].enter()
        for person in persons:
            person.wait("Waiting for your question")
        tell(f"{', '.join(f'{count} in {name}' for name, count in at_browsers.items())} wait for their question")
        running = place.command("run", "scenario.yaml", "--deployment", place.referee, "--yes", "--output", "run")
        crowd.answer()
        for person in persons:
            person.wait("Your question")
            person.press("Answer")
        for person in persons:
            person.wait("You have answered")
        tell("all browsers have their receipts")
        place.ended(running)
        receipts = crowd.close()
        tell(f"the run has ended, and {receipts} agents in Python have answered")
        audited = place.ended(place.command("audit", "run"))
        for person in persons:
            person.press("Check that it is counted")
            person.page.wait_for_selector("text=Your answer is counted as it was sent.")
        tell(f"{len(persons)} browsers have checked that their answer is counted")
        complaints = [text for person in persons for text in person.wrong]  # lost requests are retried
    for text in (*audited.splitlines(), *complaints):
        print(text)
    agents = json.loads((folder / "run" / "result.json").read_text("utf-8"))["agents"]
    print(f"{agents['asked']} were asked, {agents['answered']} answers are counted")
    return receipts == python and agents["asked"] == agents["answered"] == people


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=int, default=300)
    parser.add_argument("--chromium", type=int, default=16)
    parser.add_argument("--firefox", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-") as folder:
        at_browsers = {"chromium": options.chromium, "firefox": options.firefox}
        return 0 if measure(Path(folder), options.python, at_browsers) else 1


if __name__ == "__main__":
    sys.exit(main())
