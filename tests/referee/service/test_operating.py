"""Runs as an operator sees them: listed, cancelled while they wait and while they run, and in nobody's way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from typer.testing import CliRunner

from common.core.errors import NotFound, Unauthorized
from common.crypto.identity import Identity
from common.net import messages
from deploy.remote import Remote, operating
from referee.audit.audit import audit
from referee.cli import app
from referee.service.app import referee_app
from referee.service.runner import Runner
from tests.referee.service.test_referee import until
from tests.support import TOKEN, Bench, leave_folder, seal, served, tiny


@contextmanager
def running(bench: Bench) -> Iterator[str]:
    bench.referee.allow("operator", TOKEN)
    runner = Runner(bench.referee)
    with served(referee_app(bench.referee, runner)) as address:
        runner.start()
        try:
            yield address
        finally:
            runner.stop()


def test_a_run_that_waits_for_agents_blocks_no_other(tmp_path):
    large = tiny("agents.count=100000").wire()
    with Bench(tmp_path) as bench:
        bench.referee.create("greedy", large, 1)
        bench.referee.create("modest", bench.chosen.wire(), 1)
        with running(bench) as address, operating(address, TOKEN) as operator:
            until(lambda: bench.referee.store.run("modest").result is not None)
            first, second = operator.runs()
            assert (first["run"], first["status"]) == ("greedy", "waiting")
            assert first["waits_for"].startswith("agents: 100,000 wanted, ")
            assert (second["run"], second["waits_for"]) == ("modest", "")
            state = httpx.get(
                f"{address}/v1/runs/greedy", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60
            ).json()
            assert "100,000 wanted" in state["progress"][0]["text"]
            assert operator.cancel("greedy")["status"] == "cancelled"
            assert "no agent was asked" in bench.referee.store.run("greedy").result["reason"]
    assert bench.referee.store.run("modest").status == "exhausted"


def test_a_running_run_is_cancelled_and_what_was_released_stays(tmp_path):
    with Bench(tmp_path / "state") as bench:
        asked = threading.Event()

        def quiet(seconds: float) -> None:  # nobody answers: the run waits until it is cancelled
            asked.set()
            threading.Event().wait(0.02)

        bench.referee._wait = quiet
        bench.referee.create("run", bench.chosen.wire(), 1)
        with running(bench) as address, operating(address, TOKEN) as operator:
            assert asked.wait(60)
            (line,) = operator.runs()
            assert line["status"] == "running"
            assert line["waits_for"].startswith("agents: 0 of ")
            result = operator.cancel("run")
            assert operator.cancel("run") == result
        assert (result["status"], result["answer"]) == ("cancelled", None)
        assert "after 1 operations of the curator, which stay released" in result["reason"]
        assert "counts as spent" in result["reason"]
        assert result["privacy"]["curator"] == bench.curator.guarantee.wire()
        kinds = [json.loads(line)["kind"] for line in bench.referee.store.entries("run")]
        assert kinds == ["configuration", "terms", "operation", "question", "result"]
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    assert audit(folder).status == "cancelled"


def test_a_cancelled_run_stays_so_after_a_crash(tmp_path):
    with Bench(tmp_path) as bench:
        bench.open()
        bench.referee.cancel("run")
    with Bench(tmp_path) as bench:
        assert bench.run()["status"] == "cancelled"


def test_a_run_that_has_ended_is_not_cancelled(tmp_path):
    with Bench(tmp_path) as bench:
        ended = bench.run()
        bench.referee.cancel("run")
        assert bench.run() == ended
        with pytest.raises(NotFound):
            bench.referee.cancel("another")


def test_all_of_this_is_the_operators(bench):
    bench.referee.create("run", bench.chosen.wire(), 1)
    with running(bench) as address:
        for method, path in (
            ("GET", "/v1/runs"),
            ("GET", "/v1/runs/run"),
            ("GET", "/v1/runs/run/transcript"),
            ("PUT", "/v1/runs/run/cancellation"),
        ):
            assert httpx.request(method, address + path, trust_env=False, timeout=60).status_code == 401
        with operating(address, "another") as stranger, pytest.raises(Unauthorized):
            stranger.runs()


@pytest.mark.slow
def test_the_commands(tmp_path):
    def call(*arguments: str) -> str:
        ended = CliRunner().invoke(app, [*arguments], env={"TANDEM_OPERATOR_TOKEN": TOKEN})
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    with Bench(tmp_path) as bench:
        bench.referee.create("mine", bench.chosen.wire(), 1)
        with running(bench) as address:
            until(lambda: bench.referee.store.run("mine").result is not None)
            listed = call("runs", "--url", address).splitlines()
            assert listed[0].split() == ["run", "scenario", "status", "waits", "for"]
            assert listed[1].split()[0::2] == ["mine", "exhausted"]
            assert json.loads(call("runs", "--url", address, "--json"))[0]["run"] == "mine"
            log = call("logs", "mine", "--url", address, "--follow")
            assert "6000 agents of 1 participants are enrolled" in log
            assert "agents answered" in log
            assert "exhausted" in log
            assert "exhausted" in call("cancel", "mine", "--url", address)
            wrong = CliRunner().invoke(app, ["logs", "../x", "--url", address, "--token", TOKEN])
            assert (wrong.exit_code, wrong.stderr[:21]) == (1, "Message not acceptable"[:21])


def test_following_a_run_needs_the_token(tmp_path):
    with Bench(tmp_path) as bench:
        bench.run()
        with running(bench) as address:
            remote = Remote(address, TOKEN)
            try:
                assert remote.follow("run", lambda text, numbers: None).result["status"] == "exhausted"
            finally:
                remote.close()


def test_caps_are_held_and_printed(tmp_path, monkeypatch):
    from common.core.errors import Refused
    from referee.collection.enrolment import Caps

    with Bench(tmp_path) as bench:
        registrar = bench.referee.registrar
        registrar.caps = Caps(individuals=3, hosts=2, people=7000)

        def enrol(agents: int) -> None:
            bench.referee.enrol(seal(Identity.create(), messages.Enrolment(agents=agents)), TOKEN)

        with pytest.raises(Refused, match=r"at most 7,000 people.*found 7,001"):
            enrol(7001)
        enrol(2)
        with pytest.raises(Refused, match="at most 2 hosts"):
            enrol(2)
        for _ in range(3):
            enrol(1)
        with pytest.raises(Refused, match="at most 3 individuals"):
            enrol(1)
        bench.host.enrol(TOKEN)  # who is enrolled already stays so
        assert bench.run()["enrolment"] == {
            "individuals": 3,
            "hosts": 2,
            "max_individuals": 3,
            "max_hosts": 2,
            "max_people_per_host": 7000,
        }


def test_one_token_admits_a_bounded_number_and_nobody_where_an_issuer_vouches_for_each(tmp_path):
    """The same one who has the token and makes keys; the option's defaults are those of the command."""
    from common.core.errors import NotVouched, Refused
    from issuer.issuer import Keys
    from referee.collection.enrolment import UNVOUCHED, USUAL, Caps

    told = " ".join(CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "300"}).stdout.split())
    assert f"default: {UNVOUCHED:,}, which one token can admit; {USUAL.individuals:,} with --issuer" in told
    for folder, issuers, problem, admitted in (
        (tmp_path / "one", [], Refused, 5),
        (tmp_path / "two", [Keys(tmp_path / "issuer").public], NotVouched, 0),
    ):
        with Bench(folder) as bench:
            registrar = bench.referee.registrar
            registrar.caps, registrar.issuers = Caps(individuals=5), tuple(issuers)
            for number in range(20):
                person = seal(Identity.create(), messages.Enrolment(agents=1))
                if number < admitted:
                    bench.referee.enrol(person, TOKEN)
                else:
                    with pytest.raises(problem, match=r"one token admits them all.*--issuer|no issuer vouches"):
                        bench.referee.enrol(person, TOKEN)
            assert registrar.enrolled()["individuals"] == admitted


def test_counters_are_for_the_operator_alone(tmp_path):
    with Bench(tmp_path / "state") as bench, running(bench) as address:
        asked = f"{address}/v1/metrics"
        assert httpx.get(asked, trust_env=False, timeout=60).status_code == 401
        told = httpx.get(asked, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60)
    assert f"tandem_agents_enrolled {bench.chosen.agents.count}\n" in told.text
