"""Several real referee processes on one database, killed under load: no acknowledged report is lost or counts twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from benchmarks.kills.fleet import Sender, fleet
from common.scenario.resolved import ResolvedScenario
from deploy.deployment import Finished
from deploy.load.client import LightAgent
from deploy.load.testing import Options
from deploy.remote import Remote
from referee.audit.audit import Audit, audit
from referee.service.referee import public
from referee.state.runfolder import unpack_reports, write_run
from tests.support import TOKEN

AGENTS = 240
FEW = 40


def scenario(agents: int) -> ResolvedScenario:
    return Options(individuals=agents, seconds=300.0).scenario()


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.thorough), "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that all processes share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shared.sqlite"
    return str(request.getfixturevalue("postgresql").database())


def audited(folder: Path, chosen: ResolvedScenario, finished: Finished) -> Audit:
    """Leave a run's folder, and audit it."""
    left = finished.transcript, finished.participants, finished.reports, finished.checkpoints, finished.vouchers
    write_run(folder, public(chosen), finished.result, *left)
    return audit(folder)


@pytest.mark.slow
def test_killed_processes_lose_no_acknowledged_report_and_count_none_twice(tmp_path, database):
    agents = [LightAgent.fresh() for _ in range(AGENTS)]
    with fleet(tmp_path, database, scenario(AGENTS), TOKEN) as parties:
        urls = [parties.urls["ingest-1"], parties.urls["ingest-2"]]
        senders = [Sender(urls if n % 2 else urls[::-1], agents[n::8], TOKEN) for n in range(8)]
        remote = Remote(parties.urls["ingest-2"], TOKEN)
        remote.create(parties.chosen, 1, "run")  # given to a process that does not drive
        for sender in senders:
            sender.thread.start()

        def acknowledged(share: float) -> bool:
            return sum(len(sender.acknowledged) for sender in senders) >= share * AGENTS

        parties.until(lambda: acknowledged(0.1))
        parties.kill("driver", for_good=True)
        parties.until(lambda: acknowledged(0.4))
        parties.kill("ingest-1")
        parties.until(lambda: parties.fence() == 2)
        for sender in senders:
            sender.thread.join(300)
        finished = remote.follow("run", lambda text, numbers: None)
        remote.close()
    assert [problem for sender in senders for problem in sender.refused] == []
    said = sorted(report for sender in senders for report in sender.acknowledged)
    stored = sorted(report.report_id.hex() for _, raw in finished.reports for report in unpack_reports(raw))
    assert stored == said
    assert len(said) == AGENTS
    assert finished.result["agents"]["answered"] == AGENTS
    assert audited(tmp_path / "run", parties.chosen, finished).answers == AGENTS


@pytest.mark.slow
def test_a_driver_that_was_stopped_beyond_its_lease_and_goes_on_writes_nothing(tmp_path, database):
    """SIGSTOP while a question is open; another drives; SIGCONT before it ends: the first one's writes are refused."""
    agents = [LightAgent.fresh() for _ in range(FEW)]
    with fleet(tmp_path, database, scenario(FEW), TOKEN) as parties:
        urls = [parties.urls["ingest-1"], parties.urls["ingest-2"]]
        first, rest = Sender(urls, agents[: FEW // 2], TOKEN), Sender(urls[::-1], agents[FEW // 2 :], TOKEN)
        everybody = Sender(urls, agents, TOKEN)
        everybody.enrol()
        remote = Remote(parties.urls["ingest-2"], TOKEN)
        remote.create(parties.chosen, 1, "run")
        first.thread.start()
        first.thread.join(300)
        assert len(first.acknowledged) == FEW // 2
        stopped = parties.parties["driver"].process.pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            parties.until(lambda: parties.fence() == 2)
        finally:
            os.kill(stopped, signal.SIGCONT)
        # It holds token 1 in memory, and has a run under way whose question is open.
        parties.until(lambda: "another process has taken the lease" in parties.parties["driver"].logged())
        rest.thread.start()
        rest.thread.join(300)
        finished = remote.follow("run", lambda text, numbers: None)
        remote.close()
        assert "another process has taken the lease" in parties.parties["driver"].logged()
        assert parties.parties["driver"].process.pid == stopped  # it goes on, and takes requests
        assert httpx.get(parties.urls["driver"] + "/v1/referee", trust_env=False, timeout=60).status_code == 200
        assert parties.fence() == 2
    kinds = [json.loads(line)["kind"] for line in finished.transcript.splitlines()]
    assert kinds == ["configuration", "terms", "operation", "question", "answers", "result"]
    assert finished.result["agents"]["answered"] == FEW
    stored = sorted(report.report_id.hex() for _, raw in finished.reports for report in unpack_reports(raw))
    assert stored == sorted(first.acknowledged + rest.acknowledged)
    assert audited(tmp_path / "run", parties.chosen, finished).answers == FEW
