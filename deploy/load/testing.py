"""Load tests of a referee that runs elsewhere, or of one that is started here, with a simulated curator."""

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

import local_agent
from common.core.database import database_bytes, sqlite_url
from common.core.durable import write_durably
from common.core.errors import BadInput, RunFailed, TandemError
from common.net.server import faster_loop
from common.net.tls import context_for, read_address
from common.scenario.scenario import ResolvedScenario
from deploy.deployment import RunOutput
from deploy.load.client import Answer, Connection, LightAgent, request
from deploy.load.machine import limits
from deploy.load.options import Options as Options
from deploy.load.phases import AT_ONCE, Load, Measured, allow_descriptors, cpu_of, phase, poll_idly
from deploy.processes import PartyProcess, services
from deploy.remote import RefereeAt, Remote
from deploy.simulation import conduct
from referee.audit.audit import Audit, audit
from referee.runfolder import unpack_reports

_ALL = ("--max-individuals", "1000000000")  # a load test enrols any number of agents, with its own token


@dataclass
class LoadTarget:
    """A referee under load; ``process``, ``folder`` and ``database`` (a URL) are None if it runs elsewhere."""

    url: str
    operator: str
    enrolment: str
    process: PartyProcess | None = None
    folder: Path | None = None
    database: str | None = None

    def host_population(self, people: int, number: int) -> PartyProcess:
        if self.folder is None:
            raise BadInput("hosted people are started only beside a referee that is started here")
        name = f"agents-{number}"
        scenario = self.folder / "scenario.yaml"
        arguments = ["host", str(scenario), "--state", str(self.folder / name), "--referee", self.url, "--seed", "1"]
        arguments += ["--agents", str(people)]
        host = PartyProcess(name, [f"{local_agent.__name__}.cli", *arguments], self.folder, self.tokens)
        host.wait_for("hosts")
        return host

    @property
    def tokens(self) -> dict[str, str]:
        return {"TANDEM_ENROLMENT_TOKEN": self.enrolment, "TANDEM_OPERATOR_TOKEN": self.operator}

    def peak_memory(self) -> int | None:
        if self.process is None:
            return None
        status = Path(f"/proc/{self.process.process.pid}/status")
        lines = status.read_text("utf-8").splitlines() if status.exists() else []
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), None)


@contextmanager
def started(
    scenario: ResolvedScenario, folder: Path, database: str | None = None, referee_options: Sequence[str] = ()
) -> Iterator[LoadTarget]:
    """Start a referee and a curator on loopback, and stop them; the folders with their names hold their state."""
    chosen = folder / "scenario.yaml"
    write_durably(chosen, yaml.safe_dump(scenario.wire()).encode())
    store = database or sqlite_url(folder / "referee" / "referee.sqlite")
    target = LoadTarget("", secrets.token_hex(16), secrets.token_hex(16), folder=folder, database=store)
    options = [*_ALL, *([] if database is None else ["--database", database]), *referee_options]
    with services(folder, target.tokens, [str(chosen), "--seed", "1"], options) as (parties, address):
        target.url, target.process = address[1], parties["referee"]
        for party in parties.values():
            party.wait_for("listens on")
        yield target


PATIENCE = 600.0  # seconds to wait for the first question, and for the result after the last report
LOOK = 1.0  # seconds between two checks of a run that has asked no question yet
AGAIN = 0.02  # seconds between two polls of an agent that waits for the first question
Watch = Callable[[str, int, int], None]


def scenario_file(options: Options) -> str:
    """Return the scenario of a load test as YAML, for ``curator serve``."""
    return yaml.safe_dump(options.scenario().wire(), sort_keys=False)


def load_test(options: Options, watch: Watch, target: LoadTarget | None = None) -> dict[str, Any]:
    """Run a load test, on a referee that runs elsewhere or one that is started here; return its document.

    ``watch`` is called with a phase, the number done, and the total. BadInput if this process may not open so many
    connections.
    """
    allow_descriptors(max(options.connections, min(options.idle, AT_ONCE)))
    if target is None:
        compile_loops()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="load-")))
        machine = limits(folder)
        chosen = options.scenario()
        here = target or opened.enter_context(started(chosen, folder, options.database))
        with asyncio.Runner(loop_factory=faster_loop()) as runner:
            document = runner.run(_Test(options, chosen, here, watch).run(folder / "run"))
    return {**document, "machine": machine, "options": {**options.__dict__, "database": bool(options.database)}}


@cache
def compile_loops() -> None:
    """Compile the curator's loops in advance: the first run after an installation does so, which takes seconds."""
    conduct(Options(individuals=24).scenario(), 1, lambda number, learned: None)


class _Test:
    """One load test in progress."""

    def __init__(self, options: Options, chosen: ResolvedScenario, target: LoadTarget, watch: Watch) -> None:
        self._options = options
        self._chosen = chosen
        self._target = target
        parts = read_address(target.url)
        self._name = parts.netloc.rpartition("@")[2]
        self._load = Load(
            str(parts.hostname),
            int(parts.port or (443 if parts.scheme == "https" else 80)),
            options.schedule,
            options.rate,
            options.connections,
            None if target.process is None else target.process.process.pid,
            self._commits,
            watch,
            context_for(target.url, party="referee", shows=False),
        )
        self._run = f"load-{time.time_ns() % 10**12}"
        self._agents: list[LightAgent] = []

    async def run(self, folder: Path) -> dict[str, Any]:
        options = self._options
        self._agents = [LightAgent.fresh() for _ in range(options.individuals)]
        quiet = self._agents[: int(options.silent * options.individuals)]
        phases = {"enrol": await self._enrol("enrol", self._agents)}
        finished, timing = await self._answer(self._agents[len(quiet) :], phases)
        if finished.result["status"] != "done" and not quiet:
            raise _ended(finished.result)
        finished.write(folder, self._chosen)
        stored = sum(report.answered for _, raw in finished.reports for report in unpack_reports(raw))
        audit_result, phases["audit"] = await self._audit(folder, stored)
        idle = await self._idle() if options.idle else None
        acknowledged = phases["report"].accepted + options.hosted
        size = None if self._target.database is None else database_bytes(self._target.database)
        return {
            "phases": {name: measured.document() for name, measured in phases.items()},
            **timing,
            "acknowledged": acknowledged,
            "stored": stored,
            "counted": audit_result.answers,
            "agree": acknowledged == stored == audit_result.answers,
            "idle": idle,
            "peak_memory_bytes": self._target.peak_memory(),
            "database_bytes_per_report": None if size is None else round(size / max(1, audit_result.reports), 1),
        }

    async def _answer(
        self, speaking: list[LightAgent], phases: dict[str, Measured]
    ) -> tuple[RunOutput, dict[str, Any]]:
        """Create the run and have its question answered; return the run's output, and the measurements."""
        watch = self._load.on_progress
        hosts = self._hosts() if self._target.folder is not None else []
        began = time.perf_counter()
        remote = Remote(self._target.url, self._target.operator)
        try:
            await asyncio.to_thread(remote.create, self._chosen, 1, self._run)
            await self._wait_for_question(remote, self._agents[:1])
            opened = time.perf_counter() - began
            phases["poll"] = await phase("poll", self._load, self._agents, self._poll, _keep)
            await self._wait_for_question(remote, [agent for agent in speaking if not agent.sent])
            phases["report"] = await phase("report", self._load, speaking, self._report, _ignore)
            reported, before = time.perf_counter(), cpu_of(self._load.pid)
            watch("result", 0, 1)
            finished = await asyncio.to_thread(remote.follow, self._run, lambda text, numbers: None)
            settled = time.perf_counter() - reported
            after = cpu_of(self._load.pid)
            watch("result", 1, 1)
        finally:
            remote.close()
            for host in hosts:
                host.stop()
        return finished, {
            "first_question_seconds": round(opened, 3),
            "result": {
                "status": finished.result["status"],
                "seconds_after_last_report": round(settled, 3),
                "cpu_seconds_referee": None if before is None or after is None else round(after - before, 2),
            },
        }

    async def _audit(self, folder: Path, stored: int) -> tuple[Audit, Measured]:
        watch = self._load.on_progress
        watch("audit", 0, stored)
        began, own = time.perf_counter(), time.process_time()
        audit_result = await asyncio.to_thread(partial(audit, folder, large=True))
        measured = Measured(time.perf_counter() - began, audit_result.reports, [0.0] * audit_result.reports)
        measured.generator_cpu = time.process_time() - own
        watch("audit", audit_result.answers, audit_result.answers)
        return audit_result, measured

    async def _enrol(self, name: str, agents: list[LightAgent]) -> Measured:
        token = {"Authorization": f"Bearer {self._target.enrolment}"}

        def ask(agent: LightAgent) -> bytes:
            return request("POST", "/v1/enrolments", self._name, agent.enrolment(), token)

        return await phase(name, self._load, agents, ask, _ignore)

    async def _idle(self) -> dict[str, Any]:
        agents = [LightAgent.fresh() for _ in range(self._options.idle)]
        enrolled = await self._enrol("idle", agents)
        if enrolled.accepted < len(agents):  # agents that had to retry and succeeded are enrolled
            raise RunFailed(f"idle agents were not enrolled: {dict(enrolled.rejected)}")
        return (await poll_idly(agents, self._load, self._options.idle_seconds, self._name)).document()

    def _commits(self) -> int | None:
        headers = {"Authorization": f"Bearer {self._target.operator}"}
        try:
            with closing(RefereeAt(self._target.url, patience=0.0)) as client:
                lines = client.request("GET", "/v1/metrics", headers=headers).text.splitlines()
        except TandemError:
            return None
        return next((int(float(line.split()[1])) for line in lines if line.startswith("tandem_commits_total ")), None)

    def _hosts(self) -> list[PartyProcess]:
        """Start the hosts; if the referee runs elsewhere, they run already."""
        hosted, hosts = self._options.hosted, min(self._options.hosts, self._options.hosted)
        shares = (hosted // hosts + (n < hosted % hosts) for n in range(hosts))
        return [self._target.host_population(share, n) for n, share in enumerate(shares)]

    async def _wait_for_question(self, remote: Remote, agents: list[LightAgent]) -> None:
        """Poll for each agent until it is asked: some of a referee's processes offer a question later than others.

        RunFailed, with the run's own message, if the run ends meanwhile, or asks nothing for too long.
        """
        connection = await Connection.to(self._load.host, self._load.port, tls=self._load.tls)
        until, look = time.perf_counter() + PATIENCE, 0.0
        try:
            for agent in agents:
                while (answer := await connection.request(self._poll(agent))).status != 200:
                    if answer.status not in (204, 503):
                        raise RunFailed(f"no question came: {answer.status} {answer.body[:200]!r}")
                    if time.perf_counter() > look:
                        await asyncio.to_thread(self._look, remote, over=time.perf_counter() > until)
                        look = time.perf_counter() + LOOK
                    await asyncio.sleep(AGAIN)
                _keep(agent, answer)
        finally:
            connection.close()

    def _look(self, remote: Remote, *, over: bool) -> None:
        state = remote.state(self._run, 0)
        if state["result"] is not None:
            raise _ended(state["result"])
        if over:
            waits_for = remote.standing(self._run)["waits_for"]
            raise RunFailed(f"no question came for {PATIENCE:g} s: run {self._run} waits for {waits_for}")

    def _poll(self, agent: LightAgent) -> bytes:
        return request("POST", "/v1/polls", self._name, agent.poll())

    def _report(self, agent: LightAgent) -> bytes:
        body = agent.answer(agent.sent)
        return request("PUT", f"/v1/reports/{agent.report_id}", self._name, body)


def _ended(result: dict[str, Any]) -> RunFailed:
    return RunFailed(f"the run ended {result['status']}: {result['reason']}")


def _keep(agent: LightAgent, answer: Answer) -> None:
    agent.sent = answer.body


def _ignore(agent: LightAgent, answer: Answer) -> None:
    """Discard an answer."""
