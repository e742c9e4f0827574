"""Several real referee processes on one database, killed under load: no acknowledged report is lost or counts twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import pytest

from benchmarks.kills.fleet import Sender, fleet
from common.core.errors import VersionSkew
from common.core.version import HEADER, PROTOCOL, stated
from common.net import edge, messages
from common.net.client import Client
from curator.app import curator_app
from deploy.deployment import RunOutput
from deploy.load.client import LightAgent
from deploy.load.testing import Options
from deploy.remote import Remote
from local_agent.client import RefereeClient
from referee.audit.audit import audit
from referee.runfolder import unpack_reports
from referee.service.referee import CuratorClient
from tests.deploy.test_processes import until
from tests.support import TINY, TOKEN, Bench, fetch, leave_folder, quiet, served

AGENTS = 240


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.thorough), "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that all processes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.sqlite"
    return str(request.getfixturevalue("postgresql").database())


def stored(finished: RunOutput) -> list[str]:
    return sorted(report.report_id.hex() for _, raw in finished.reports for report in unpack_reports(raw))


@pytest.mark.slow
def test_stopped_and_killed_processes_lose_no_acknowledged_report_and_count_none_twice(tmp_path, database):
    """SIGSTOP while a question is open; another drives; SIGCONT before it ends: the first one's writes are refused.

    Then the other one is killed, so that the first one drives again, and a process that takes reports.
    """
    agents = [LightAgent.fresh() for _ in range(AGENTS)]
    with fleet(tmp_path, database, Options(AGENTS, seconds=300.0).scenario(), TOKEN) as parties:
        urls = [parties.urls["ingest-1"], parties.urls["ingest-2"]]
        first, *rest = senders = [Sender(urls if n % 2 else urls[::-1], agents[n::8], TOKEN) for n in range(8)]
        for sender in senders:
            sender.enrol()
        remote = Remote(parties.urls["ingest-2"], TOKEN)
        remote.create(parties.chosen, 1, "run")  # given to a process that does not drive
        first.thread.start()
        first.thread.join(300)
        assert len(first.acknowledged) == AGENTS // 8
        driver = parties.parties["driver"]
        stopped = driver.process.pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            parties.until(lambda: parties.fence() == 2)
        finally:
            os.kill(stopped, signal.SIGCONT)
        # It holds token 1 in memory, and has a run under way whose question is open.
        parties.until(lambda: "another process has taken the lease" in driver.logged())
        for sender in rest:
            sender.thread.start()

        def acknowledged(share: float) -> bool:
            return sum(len(sender.acknowledged) for sender in senders) >= share * AGENTS

        parties.until(lambda: acknowledged(0.2))
        parties.kill("standby", for_good=True)
        parties.until(lambda: acknowledged(0.5))
        parties.kill("ingest-1")
        parties.until(lambda: parties.fence() == 3)
        for sender in rest:
            sender.thread.join(300)
        finished = remote.follow("run", quiet)
        remote.close()
        assert driver.process.pid == stopped  # it goes on, and takes requests
        assert fetch("GET", parties.urls["driver"] + "/v1/referee").status_code == 200
    assert [problem for sender in senders for problem in sender.refused] == []
    said = sorted(report for sender in senders for report in sender.acknowledged)
    assert stored(finished) == said
    assert len(said) == finished.result["agents"]["answered"] == AGENTS
    kinds = [json.loads(line)["kind"] for line in finished.transcript.splitlines()]
    assert kinds == ["configuration", "terms", "operation", "question", "answers", "result"]
    assert audit(leave_folder(tmp_path / "run", parties.chosen, 1, finished)).answers == AGENTS


def children(process: int) -> set[int]:
    with suppress(OSError):
        return {int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()}
    return set()


def alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes below /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_deployment_that_ends_takes_its_parties_along(tmp_path, how):
    # Too few people ever come: the run waits until somebody ends it.
    scarce = [*TINY, "agents.dropout=0.99", "agents.deadline=1000", "agents.count=6000"]
    command = [sys.executable, "-m", "referee.cli", "run", "ball", "--seed", "1", "--deployment", "processes"]
    command += ["--output", str(tmp_path / "run"), *(part for override in scarce for part in ("--set", override))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        until(lambda: len(children(run.pid)) >= 3)
        seen = children(run.pid)
        run.send_signal(how)
        run.wait(600)
    until(lambda: not any(alive(child) for child in seen))


BOTH = rf"protocol 9 \(Tandem 0\.9\.0\), this side speaks {PROTOCOL} \(Tandem .+\): upgrade"
NEWER = "9 tandem/0.9.0"
NOTHING = rf"states no protocol \(Tandem 0\.2\.0 or older\), this side speaks {PROTOCOL} \(Tandem "


@pytest.fixture
def parties(tmp_path) -> Iterator[tuple[Bench, str, str]]:
    with Bench(tmp_path) as bench, served(bench.app()) as referee, served(curator_app(bench.curator)) as curator:
        yield bench, referee, curator


@contextmanager
def speaking(client: Client, said: str) -> Iterator[Any]:
    """A client of another release, which states what that one states."""
    with closing(client):
        client._client.headers[HEADER] = said
        yield client


def test_services_refuse_a_newer_client_before_they_read_anything(parties):
    bench, referee, curator = parties
    with speaking(RefereeClient(referee), NEWER) as agent:
        for contact in (agent.key, lambda: agent.enrol(bench.population.enrolment(), TOKEN)):
            with pytest.raises(VersionSkew, match=rf"the client speaks {BOTH}"):
                contact()
    signed = bench.referee.identity.sign("configuration", {"run": "run", "version": 9})
    with speaking(CuratorClient(curator), NEWER) as asking, pytest.raises(VersionSkew, match=BOTH):
        asking.open_run(signed)


@pytest.mark.parametrize(
    ("other", "speaks"),
    [((HEADER.encode(), NEWER.encode()), f"speaks {BOTH}"), ((b"x", b"y"), NOTHING)],
    ids=["newer", "older"],
)
def test_clients_refuse_a_service_of_another_release(parties, monkeypatch, other, speaks):
    """One that states a newer protocol at whatever it says; one that states nothing at the first contact."""
    bench, referee, curator = parties
    monkeypatch.setattr(edge, "stating", lambda: other)
    bad = bench.referee.identity.sign("configuration", {"run": "run"})
    with closing(RefereeClient(referee)) as agent, closing(CuratorClient(curator)) as asking:
        with pytest.raises(VersionSkew, match=rf"referee at {referee} {speaks}"):
            agent.key()
        with pytest.raises(VersionSkew, match=rf"curator at {curator} {speaks}"):
            asking.open_run(bad)


@pytest.mark.parametrize("found", [1, 2, 9])
def test_a_configuration_of_another_protocol_is_refused_by_curator_and_agents(parties, found):
    """Also where no header says so, as from a release before it."""
    bench, _, curator = parties
    bench.open()
    wire = {**bench.referee.configuration("run").message, "version": found, "more": 1}
    signed = bench.referee.identity.sign("configuration", wire)
    both = rf"configuration speaks protocol {found} \(Tandem .*this side speaks {PROTOCOL} \(Tandem "
    reply = fetch("PUT", f"{curator}/v1/runs/run", content=signed.model_dump_json())
    assert (reply.status_code, reply.json()["type"]) == (409, "urn:tandem:problem:version-skew")
    with pytest.raises(VersionSkew, match=both):
        messages.Configuration.parse(wire)
    assert bench.curator._ledger.holder is not None  # the run of before, and nothing more
    with pytest.raises(VersionSkew, match=both):
        bench.curator.open_run(signed)


def test_whoever_states_nothing_may_still_look(parties):
    _, referee, curator = parties
    for address in (f"{referee}/v1/health", f"{curator}/v1/ready"):
        assert fetch("GET", address).headers[HEADER] == stated()
    for said, status in (("x", 409), (f"{PROTOCOL} tandem/9.9.9", 200)):
        asked = fetch("GET", f"{referee}/v1/referee", headers={HEADER: said})
        assert asked.status_code == status
    assert get_args(messages.Configuration.model_fields["version"].annotation) == (PROTOCOL,)
