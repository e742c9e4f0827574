"""Valid inputs, from a real run: what parties sent each other, what they left on disk, and every registered example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.crypto.identity import Identity, Signed
from common.lifetime.charging import Charging
from common.scenario.scenario import ResolvedScenario, settled
from curator.curator import Curator
from curator.startup import open_curator
from local_agent.host import Host
from local_agent.hosted.population import Population, open_population
from referee.protocols.base import small_ball
from referee.runfolder import pack_reports
from referee.service.referee import Referee

TOKEN = "token-of-the-fuzzer"
FINISHED, OPEN = "finished", "open"
"""Names of a run that has ended, and of one that waits for its first answers."""


class Halted(BaseException):
    """Stops a run where it is, as a crash does."""


@dataclass
class Corpus:
    """What a run of all parties leaves.

    Attributes:
        signed: Signed messages by kind.
        bodies: Packed answers by the number of people.
    """

    chosen: ResolvedScenario
    folder: Path
    curator: Curator
    referee: Referee
    population: Population
    signed: dict[str, list[Signed]] = field(default_factory=dict)
    bodies: list[tuple[Signed, bytes]] = field(default_factory=list)
    agent: Identity = field(default_factory=Identity.create)

    def keep(self, signed: Signed) -> Signed:
        """Keep a message."""
        self.signed.setdefault(signed.kind, []).append(signed)
        return signed

    @property
    def transcript(self) -> bytes:
        """The finished run's."""
        return "".join(line + "\n" for line in self.referee.store.entries(FINISHED)).encode()

    @property
    def reports(self) -> bytes:
        """The packed reports on the finished run's first question."""
        store = self.referee.store
        return pack_reports(store.reports(store.questions(FINISHED)[0]))


class _Heard:
    """A curator whose words, and those to it, are kept."""

    def __init__(self, curator: Curator, corpus: list[Corpus]) -> None:
        self._curator, self._corpus = curator, corpus

    def open_run(self, signed: Signed) -> Signed:
        return self._corpus[0].keep(self._curator.open_run(self._corpus[0].keep(signed)))

    def open_share(self, signed: Signed) -> Signed:
        return self._corpus[0].keep(self._curator.open_share(self._corpus[0].keep(signed)))

    def perform(self, signed: Signed) -> Signed:
        return self._corpus[0].keep(self._curator.perform(self._corpus[0].keep(signed)))

    def acknowledge(self, signed: Signed) -> None:
        self._curator.acknowledge(self._corpus[0].keep(signed))


class _Port:
    """A referee whose words to a host, and the host's to it, are kept."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus, self._referee = corpus, corpus.referee

    def enrol(self, signed: Signed, token: str) -> Signed:
        return self._corpus.keep(self._referee.enrol(self._corpus.keep(signed), token))

    def poll(self, signed: Signed) -> Signed | None:
        found = self._referee.poll(self._corpus.keep(signed))
        return None if found is None else self._corpus.keep(found)

    def configuration(self, run: str) -> Signed:
        return self._referee.configuration(run)

    def decline(self, signed: Signed) -> None:
        self._referee.decline(self._corpus.keep(signed))

    def report(self, signed: Signed) -> Signed:
        return self._corpus.keep(self._referee.report(self._corpus.keep(signed)))

    def report_packed(self, signed: Signed, body: bytes) -> Signed:
        self._corpus.bodies.append((signed, body))
        return self._corpus.keep(self._referee.report_packed(self._corpus.keep(signed), body))


@contextmanager
def collected(folder: Path) -> Iterator[Corpus]:
    """Carry one run to its end and another one to its first question; the parties stay open while the block lasts."""
    chosen = settled(small_ball())
    with ExitStack() as opened:
        curator = open_curator(chosen, folder / "curator", 1, None, charging=Charging(ephemeral=True))
        opened.callback(curator.close)
        holder: list[Corpus] = []
        hosts: list[Host] = []
        halting: list[bool] = []

        def wait(seconds: float) -> None:
            if halting or not any(host.step() for host in hosts):
                raise Halted

        referee = Referee(folder / "referee", _Heard(curator, holder), wait=wait, clock=lambda: 0.0)
        opened.callback(referee.close)
        for purpose in ("enrolment", "operator", "metrics"):
            referee.registrar.allow(purpose, f"{TOKEN}-{purpose}")
        key = referee.identity.public
        people = open_population(chosen, folder / "agents", 1, key, 2 * chosen.agents.count)
        opened.callback(people.close)
        holder.append(Corpus(chosen, folder, curator, referee, people))
        hosts.append(Host(people, _Port(holder[0]), key))
        hosts[0].enrol(f"{TOKEN}-enrolment")
        referee.create(FINISHED, chosen.wire(), 1)
        referee.execute(FINISHED)
        for kept in referee.kept(FINISHED):
            holder[0].keep(kept.checkpoint)
        _answer_alone(holder[0])
        halting.append(True)
        yield holder[0]


def _answer_alone(corpus: Corpus) -> None:
    """Add what an individual's agent would send: it has answered the finished run's question."""
    assignment = (
        corpus.signed["assignment"][0] if "assignment" in corpus.signed else corpus.signed["mass-assignment"][0]
    )
    said: dict[str, Any] = {name: assignment.message[name] for name in ("run", "digest", "question")}
    told = {**said, "assignment": "0" * 64}
    corpus.keep(corpus.agent.sign("report", {**told, "report_id": "0" * 32, "answer": 1.0}))
    corpus.keep(corpus.agent.sign("decline", {**told, "reason": "policy"}))
    corpus.keep(corpus.agent.sign("enrolment", {"agents": 1}))
    corpus.keep(corpus.agent.sign("poll", {"participant": corpus.agent.public}))
    asked = {"participant": corpus.population.identity.public, "run": said["run"], "question": said["question"]}
    corpus.keep(corpus.population.identity.sign("proof-request", asked))
