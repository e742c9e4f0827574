"""The page that a referee serves: in a process of its own, which shows the referee's runs and never outlives it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from common.core.errors import NotFound, Unauthorized
from common.crypto.identity import Identity, Signed
from common.log.receipts import Checkpoint
from common.log.witness import FileWitness
from common.net import messages, monitoring
from curator.app import curator_app
from deploy.processes import free_port
from referee.collection import roster
from referee.service import agents_edge
from referee.service.app import checks, referee_app
from referee.service.runner import Runner
from referee.service.witness import witness_app
from tests.curator.requests import full_disk
from tests.referee.service.test_referee import until
from tests.support import TOKEN, Bench, seal, served
from tests.tiers import for_each

TOKENS = {"TANDEM_ENROLMENT_TOKEN": "choose-one", "TANDEM_OPERATOR_TOKEN": "choose-another"}


def serving(folder: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "referee.cli", "serve", "--state", str(folder), "--port", "0", "--page", str(port)]
    return subprocess.Popen(command, env={**os.environ, **TOKENS}, stdout=subprocess.PIPE, text=True)


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+/\?key=\S+", line):
            return found[0]
    raise AssertionError("no page came up")


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_page_shows_the_referee_and_ends_with_it(tmp_path, end):
    port = free_port()
    process = serving(tmp_path / "referee", port)
    try:
        link = address(process)
        with httpx.Client(trust_env=False, timeout=60, follow_redirects=True) as browser:
            page = browser.get(link).text
            assert "has no runs yet" in page
            assert TOKENS["TANDEM_OPERATOR_TOKEN"] not in page
            assert httpx.get(link.partition("?")[0], trust_env=False, timeout=60).status_code == 403
            process.send_signal(end)
            process.wait(120)
            until = time.monotonic() + 120
            while True:
                try:
                    browser.get(link)
                except httpx.TransportError:
                    break
                assert time.monotonic() < until, "the page outlives its referee"
                time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.usefixtures("each_store")
@for_each("short", [True, False])
def test_the_edge_and_the_app_answer_alike(tmp_path, short):
    somebody = Identity.create()
    enrolment = seal(somebody, messages.Enrolment(agents=1)).model_dump_json()
    stranger = Identity.create()
    poll = seal(stranger, messages.Poll(participant=stranger.public)).model_dump_json()
    with Bench(tmp_path) as bench:
        app = referee_app(bench.referee, Runner(bench.referee))
        if not short:
            app.edge.short.clear()
        with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            told = client.post("/v1/enrolments", content=enrolment, headers={"Authorization": f"Bearer {TOKEN}"})
            assert told.status_code == 200
            assert told.json()["message"]["participant"] == somebody.public
            assert client.post("/v1/enrolments", content=enrolment).status_code == 401
            refused = client.post("/v1/polls", content=poll)
            assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (404, NotFound.problem)
            misplaced = client.put("/v1/reports/" + "0" * 32, content=poll)
            assert (misplaced.status_code, misplaced.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.usefixtures("each_store")
def test_of_very_many_only_hosts_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "HELD", 3)
    monkeypatch.setattr(agents_edge, "HOLD", 0.05)
    individuals, host = [Identity.create() for _ in range(4)], Identity.create()
    with Bench(tmp_path) as bench:
        app = referee_app(bench.referee, Runner(bench.referee))
        with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:

            def pause(who: Identity) -> float:
                poll = seal(who, messages.Poll(participant=who.public)).raw()
                told = client.post("/v1/polls", content=poll)
                assert told.status_code == 204
                return float(told.headers["retry-after"])

            for who, agents in ((individuals[0], 1), (host, 2)):
                bench.referee.enrol(seal(who, messages.Enrolment(agents=agents)), TOKEN)
            assert pause(individuals[0]) == pause(host) == 0.0  # three participants, with the bench's own host
            for who in individuals[1:]:
                bench.referee.enrol(seal(who, messages.Enrolment(agents=1)), TOKEN)
            monkeypatch.setattr(roster, "POLLS", 0.1)
            assert pause(host) == 0.0
            assert all(30.0 <= pause(who) <= 60.0 for who in individuals)


@pytest.mark.usefixtures("each_store")
def test_pauses_share_what_a_referee_takes():
    assert roster.usual_pause(100_000) == pytest.approx(150.0)
    assert roster.usual_pause(10**9) == 0.75 * roster.LONGEST


INDIVIDUAL = "for-individuals-only"


@pytest.mark.usefixtures("each_store")
def test_a_token_admits_whom_it_is_for(bench):
    def enrol(agents: int, token: str) -> Signed:
        return bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=agents)), token)

    bench.referee.allow("individual", INDIVIDUAL)
    assert enrol(1, INDIVIDUAL).message["agents"] == 1
    for agents in (1, 2):
        enrol(agents, TOKEN)
    for agents, token in ((2, INDIVIDUAL), (1, ""), (2, "")):
        with pytest.raises(Unauthorized, match="enrolment token" if token else None):
            enrol(agents, token)
    with pytest.raises(Unauthorized):
        bench.referee.authorize("operator", INDIVIDUAL)
    assert bench.referee.registrar.roster.agents == bench.chosen.agents.count + 4


NUMBERS = [0, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def test_lists_are_asked_from_places_that_they_do_not_have(tmp_path):
    referee = Identity.create()
    said = Checkpoint(run="run", configuration="0" * 64, entries=1, hash="0" * 64, root="0" * 64, time=1)
    with Bench(tmp_path / "bench") as bench:
        bench.referee.allow("operator", TOKEN)
        bench.run()
        app = referee_app(bench.referee, Runner(bench.referee))
        with asking(witness_app(tmp_path, TOKEN)) as witness, asking(app) as run:
            place = f"/v1/runs/{referee.public}/run"
            assert witness.put(place, content=seal(referee, said).raw(), headers=HEADERS).status_code == 200
            for number in NUMBERS:
                answers = [
                    run.get(f"/v1/runs/run{path}", params={"after": number}, headers=HEADERS)
                    for path in ("", "/checkpoints", "/transcript")
                ]
                answers.append(run.get("/v1/runs/run/transcript", params={"after": 1, "most": number}, headers=HEADERS))
                answers.append(witness.get(place, params={"after": number}))
                assert all(answer.status_code in (200, 422) for answer in answers), number


@pytest.fixture
def _looks_each_time(monkeypatch):
    monkeypatch.setattr(monitoring, "FRESH", 0.0)


@contextmanager
def asking(app) -> Iterator[httpx.Client]:
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
        yield client


def lacks(client: httpx.Client) -> str | None:
    reply = client.get("/v1/ready")
    assert client.get("/v1/health").status_code == 200
    return None if reply.status_code == 200 else str(reply.json()["not_ready"])


@pytest.mark.usefixtures("_looks_each_time")
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


@pytest.mark.usefixtures("_looks_each_time")
def test_asking_changes_nothing_and_commits_nothing(tmp_path):
    with Bench(tmp_path) as bench:
        before = bench.referee.store.commits(), bench.curator._journal.chain.head()
        bench.referee.store.check_writable()
        assert bench.curator._journal.lacking() is None
        assert (bench.referee.store.commits(), bench.curator._journal.chain.head()) == before


@pytest.mark.usefixtures("_looks_each_time")
def test_a_process_that_would_drive_wants_somebody_to(tmp_path, monkeypatch):
    with Bench(tmp_path) as bench:
        bench.referee.lease = 0.01
        runner = Runner(bench.referee)
        driver = checks(bench.referee, runner)["driver"]
        monkeypatch.setattr(bench.referee, "drive", lambda: False)  # whoever holds it is not heard of
        assert driver() is None  # it takes requests alone
        runner.start()
        try:
            until(lambda: driver() == "no process has held the lease for 0.03 seconds")
            assert bench.referee.store.take_lease("another", 60.0)
            bench.referee.store.fence = None
            assert driver() is None
        finally:
            runner.stop()


@pytest.mark.usefixtures("_looks_each_time")
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
