"""A referee and a curator are ready while they can do their work, and say what they lack when they cannot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from common.log.witness import FileWitness
from common.net import readiness
from curator.service.app import curator_app
from referee.service.app import referee_app
from referee.service.monitoring import checks
from referee.service.runner import Runner
from tests.curator.service.test_curator_app import full_disk
from tests.referee.service.test_referee import until
from tests.support import Bench, served


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch):
    monkeypatch.setattr(readiness, "FRESH", 0.0)


@contextmanager
def asking(app) -> Iterator[httpx.Client]:
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        yield client


def lacks(client: httpx.Client) -> str | None:
    reply = client.get("/v1/ready")
    assert client.get("/v1/health").status_code == 200
    return None if reply.status_code == 200 else str(reply.json()["not_ready"])


def test_a_referee_without_room_or_database_is_alive_and_not_ready(tmp_path):
    with Bench(tmp_path) as bench, asking(referee_app(bench.referee, Runner(bench.referee))) as client:
        assert lacks(client) is None
        with full_disk():
            assert lacks(client) == "disk"
        assert lacks(client) is None
        with bench.referee.store._engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA query_only=ON")
        assert lacks(client) == "database"
        assert str(tmp_path) not in client.get("/v1/ready").text
        with bench.referee.store._engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA query_only=OFF")
        assert lacks(client) is None


def test_asking_changes_nothing_and_commits_nothing(tmp_path):
    with Bench(tmp_path) as bench:
        before = bench.referee.store.commits(), bench.curator._directory.journal.chain.head()
        bench.referee.store.check_writable()
        assert bench.curator._directory.journal.lacking() is None
        assert (bench.referee.store.commits(), bench.curator._directory.journal.chain.head()) == before


def test_a_process_that_would_drive_wants_somebody_to(tmp_path, monkeypatch):
    with Bench(tmp_path) as bench:
        bench.referee.lease = 0.01
        runner = Runner(bench.referee)
        driver = checks(bench.referee, runner)["driver"]
        monkeypatch.setattr(bench.referee, "drive", lambda: False)  # whoever holds it is not heard of
        assert driver() is None  # it takes requests alone
        runner.start()
        try:
            until(lambda: driver() == "nobody has held the lease for 0.03 seconds")
            assert bench.referee.store.take_lease("another", 60.0)
            bench.referee.store.fence = None
            assert driver() is None
        finally:
            runner.stop()


def test_a_curator_whose_ledger_or_witness_is_gone_is_not_ready(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    witness = FileWitness(other / "heads")
    with Bench(tmp_path / "state", witnesses=[witness]) as bench, asking(curator_app(bench.curator)) as client:
        assert lacks(client) is None
        with full_disk():
            assert lacks(client) == "disk"
        shutil.rmtree(other)
        assert lacks(client) == "witnesses"
        ledger = tmp_path / "state" / "curator" / "ledger.sqlite"
        ledger.rename(ledger.with_suffix(".away"))
        assert lacks(client) == "ledger, witnesses"
        assert "1 of 1 cannot be written" in client.get("/v1/ready").json()["detail"]
