"""All parties of one run in this process, with their real services' code, so that some of them can cheat."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common.crypto.identity import Identity
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.log.transcript import SignedEntry
from common.net.connection import Limits
from common.net.server import Server, listen
from common.scenario.scenario import ResolvedScenario, settled
from curator.curator import Curator
from curator.startup import open_curator
from deploy.baselines import evaluation_source, loss
from local_agent.host import Host
from local_agent.hosted.population import Population, open_population
from referee.protocols.base import small_ball
from referee.runfolder import pack_reports, write_run
from referee.runs.curator import CuratorPort
from referee.service.referee import Referee, public
from referee.service.witness import WitnessLog, witness_app

TOKEN = "enrolment-token"
SEED = 1


def scenario(*numbers: str) -> ResolvedScenario:
    """Return one learner's call, and one question to 6,000 agents whether its answer is good."""
    usual = ("protocol=learn-and-test", "agents.count=6000", "curator.rounds=1", "agents.mechanism.epsilon=3")
    return settled(small_ball(*usual, "agents.deadline=5", *numbers))


class Parties:
    """A curator, a referee with a witness, and hosts of simulated people.

    Args:
        folder: Where all of them keep their state.
        chosen: The scenario.
        hosts: For how many people each host speaks.
        curator: What stands between the curator and the referee.
    """

    def __init__(
        self,
        folder: Path,
        chosen: ResolvedScenario,
        hosts: Sequence[int] = (6000,),
        curator: Callable[[Curator], CuratorPort] = lambda honest: honest,
    ) -> None:
        self.folder, self.chosen, self._opened = folder, chosen, ExitStack()
        folder.mkdir()
        self._now = 0.0
        self.silent: set[int] = set()
        """Numbers of the hosts that are not heard."""
        own = open_curator(chosen, folder / "curator", SEED, None)
        self._opened.callback(own.close)
        (folder / "witness").mkdir()
        witness = Identity.load_or_create(folder / "witness" / "identity.key")
        self.witness = WitnessLog(folder / "witness" / "runs", witness)
        ways: dict[str, Any] = {"wait": self._wait, "clock": lambda: self._now, "witnesses": [self.witness]}
        self.referee = Referee(folder / "referee", curator(own), **ways)
        self._opened.callback(self.referee.close)
        self.referee.registrar.allow("enrolment", TOKEN)
        self.keys = ("--referee-key", self.referee.identity.public, "--curator-key", own.key)
        self.hosts: list[Host] = []
        self.populations: list[Population] = []
        for number, people in enumerate(hosts):
            key = self.referee.identity.public
            population = open_population(chosen, folder / f"host{number}", SEED, key, people)
            self._opened.callback(population.close)
            self.populations.append(population)
            self.hosts.append(Host(population, self.referee, key))
            self.hosts[-1].enrol(TOKEN)

    def __enter__(self) -> Parties:
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.close()

    def _wait(self, seconds: float) -> None:
        """Let the hosts work; time passes a little then, and else all of it."""
        heard = [host for number, host in enumerate(self.hosts) if number not in self.silent]
        worked = [host.step() for host in heard]
        self._now += 0.25 if any(worked) else seconds

    def run(self) -> Path:
        """Carry a run to its end; return its folder."""
        self.referee.create("run", self.chosen.wire(), SEED)
        result = self.referee.execute("run")
        store, folder = self.referee.store, self.folder / "run"
        reports = tuple((q.question, pack_reports(store.reports(q))) for q in store.questions("run"))
        transcript = "".join(line + "\n" for line in store.entries("run"))
        beside = {"truth": None, "peak_memory_bytes": 0, "run": str(folder)}
        parts = transcript, self.referee.participants("run"), reports, tuple(self.referee.kept("run"))
        write_run(folder, public(self.chosen), {**result, **beside}, *parts)
        return folder

    def true_loss(self, answer: Any) -> float:
        """Return the loss of a run's answer on very many people of the target."""
        return loss(parse_hypothesis(answer), evaluation_source(self.chosen, SEED))


def entries_of(run: Path) -> list[SignedEntry]:
    """Return the transcript of a run folder."""
    return [SignedEntry.model_validate_json(line) for line in (run / "transcript.jsonl").read_text().splitlines()]


def write_entries(run: Path, entries: Sequence[SignedEntry]) -> None:
    """Put another transcript into a run folder."""
    (run / "transcript.jsonl").write_text("".join(entry.line() + "\n" for entry in entries))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve what a witness has kept, on loopback; gives its address."""
    listener = listen("127.0.0.1", 0)
    service = Server(witness_app(folder, "witness-token"), Limits(100), grace=1.0)
    thread = threading.Thread(target=service.run, args=(listener,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        service.stop()
        thread.join(20)
        listener.close()
