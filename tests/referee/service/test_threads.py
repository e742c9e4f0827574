"""Every long-lived thread of every party ends by an exception of each kind: it goes on, and what ended it shows."""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from http.server import ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import pytest

from common.core import threads as supervised
from common.net import monitoring
from common.net.batching import Grouped
from curator import state as directory
from curator.app import curator_app
from deploy.processes import PartyProcess
from local_agent.metrics import AT_ONCE, exposed
from referee.protocols.base import PROTOCOLS
from referee.service import runner as running
from tests.common.core.test_machine import KINDS
from tests.curator.test_curator_app import perform, put
from tests.deploy.test_processes import party
from tests.referee.service.test_referee import driving, ended, until
from tests.support import TOKEN, Bench, asking, tiny

pytestmark = pytest.mark.slow
QUICK = tiny("agents.count=600", "agents.batch=200", "agents.deadline=5").wire()
CROWD = 60_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(supervised, "PAUSE", 0.01)
    monkeypatch.setattr(supervised, "LONGEST", 0.02)
    monkeypatch.setattr(monitoring, "FRESH", 0.0)


class Failing:
    """Calls something, and raises in its place as often as there is something to raise."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.left: list[BaseException] = []

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.left:
            raise self.left.pop()
        return self.call(*arguments, **named)


def test_no_thread_of_a_referee_ends_in_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "CATCH_UP", 0.0)
    with driving(tmp_path, CROWD) as (bench, runner, follower, operator):
        referee, failing = bench.referee, {}
        monkeypatch.setattr(referee, "lease", 0.03)
        for name, owner, attribute in (
            ("runner", referee, "drive"),
            ("lease", referee.store, "renew_lease"),
            ("witnesses", referee, "catch_up"),
            ("follower", referee.registrar, "refresh"),
            ("words", PROTOCOLS, "names"),
        ):
            failing[name] = Failing(getattr(owner, attribute))
            monkeypatch.setattr(owner, attribute, failing[name])
        failing["words"].left = list(KINDS)
        runner.start()
        follower.start()
        threads = {thread.name: thread for thread in [*runner.threads, follower.threads]}
        for name in ("runner", "witnesses", "follower", "lease"):
            for number, error in enumerate(KINDS, start=1):
                failing[name].left.append(error)
                until(lambda name=name, number=number: threads[name].failures >= number)
            refused = operator.get("/v1/ready")
            assert (refused.status_code, name in refused.json()["not_ready"].split(", ")) == (503, True), name
        until(lambda: threads["words"].failures == len(KINDS))
        shown = operator.get("/v1/metrics").text
        for name in failing:
            assert f'tandem_thread_failures_total{{thread="{name}"}} {len(KINDS)}' in shown, name
        monkeypatch.setattr(referee, "lease", 10.0)
        assert ended(bench, "later", QUICK)["status"] in ("done", "exhausted")
        for kind in threads.values():
            kind._again.clear()  # as SETTLED seconds later
        until(lambda: operator.get("/v1/ready").status_code == 200)


def test_what_ends_a_run_ends_no_other_and_later_ones_can_be_cancelled(tmp_path, monkeypatch):
    with driving(tmp_path, CROWD) as (bench, runner, _, operator):
        execute, give_up = Failing(bench.referee.execute), Failing(bench.referee.give_up)
        monkeypatch.setattr(bench.referee, "execute", execute)
        monkeypatch.setattr(bench.referee, "give_up", give_up)
        runner.start()
        for number, error in enumerate(KINDS):
            execute.left = [error]
            result = ended(bench, f"bad-{number}", QUICK)
            assert (result["status"], result["reason"]) == ("failed", RAISED.format(type(error).__name__))
        assert operator.get("/v1/ready").status_code == 200  # a run has ended, and nothing else
        execute.left, give_up.left = [ValueError("x")] * (len(KINDS) + 1), list(KINDS)
        assert ended(bench, "worse", QUICK)["reason"] == RAISED.format("ValueError")
        assert f'tandem_thread_failures_total{{thread="run"}} {len(KINDS)}' in operator.get("/v1/metrics").text
        bench.referee.create("waiting", tiny("agents.count=100000").wire(), 1)
        until(lambda: bench.referee.notes("waiting"))
        operator.put("/v1/runs/waiting/cancellation")
        assert ended(bench, "waiting")["status"] == "cancelled"
        assert ended(bench, "last", QUICK)["status"] in ("done", "exhausted")


RAISED = "a fault of the referee itself ({}); its log says more"


def test_a_run_that_cannot_even_be_looked_at_keeps_no_other_waiting(tmp_path, monkeypatch):
    with driving(tmp_path, CROWD) as (bench, runner, _, _):
        lacking = bench.referee.lacking

        def looked(state: Any) -> str | None:
            if state.run == "bad":
                raise ValueError("cannot be read")
            return lacking(state)

        monkeypatch.setattr(bench.referee, "lacking", looked)
        bench.referee.create("bad", QUICK, 1)
        runner.start()
        assert ended(bench, "good", QUICK)["status"] in ("done", "exhausted")
        assert runner._driver.failures == 0


def test_requests_that_are_worked_on_in_groups_are_answered_whatever_the_work_raises():
    async def ask() -> None:
        work = Failing(lambda items: items)
        grouped: Grouped[int] = Grouped(work, "numbers", Failing(lambda items: items))
        for error in KINDS:
            work.left = [error]
            with pytest.raises(Exception):  # noqa: B017, PT011 - some Exception, which a service answers with a problem
                await grouped(1)
            assert await grouped(2) == 2
        assert [thread.name for thread in grouped.threads] == ["numbers", "numbers-check"]
        assert grouped.threads[0].failures == sum(not isinstance(error, Exception) for error in KINDS)

    asyncio.run(ask())


def test_an_operation_that_ends_its_thread_is_answered_and_the_next_one_is_carried_out(tmp_path, monkeypatch, caplog):
    with Bench(tmp_path) as bench:
        bench.open()
        carried = Failing(bench.curator.perform_admitted)
        monkeypatch.setattr(bench.curator, "perform_admitted", carried)
        with asking(curator_app(bench.curator, TOKEN)) as client:
            for error in KINDS:
                carried.left = [type(error)("somebody's record")]
                with closing(httpx.Client(base_url=client.base_url, trust_env=False, timeout=600)) as once:
                    assert put(once, perform(bench)).status_code >= 400
            until(lambda: put(client, perform(bench)).status_code == 200)
            assert 'tandem_thread_failures_total{thread="operation"} 4' in client.get("/v1/metrics").text
            assert client.get("/v1/ready").json()["not_ready"] == "operation"
        ours = [line for line in caplog.records if "has ended unexpectedly" in line.getMessage()]
        assert len(ours) == 4
        assert not any("record" in line.getMessage() or line.exc_info for line in ours)


def test_weights_that_cannot_be_stored_stop_no_operation(tmp_path, monkeypatch):
    kept = directory.Checkpoints(tmp_path, bytes(32))
    write = Failing(kept._write)
    monkeypatch.setattr(kept, "_write", write)
    monkeypatch.setattr(directory, "SECONDS", 0.0)
    for number, error in enumerate(KINDS, start=1):
        write.left = [error]
        kept.offer(number, 1.0, "a" * 64, lambda: iter([np.zeros(3)]))
        kept.settle()
    kept.offer(50, 1.0, "a" * 64, lambda: iter([np.zeros(3)]))
    kept.settle()
    assert [path.name for path in tmp_path.glob("weights-*")] == ["weights-50"]
    kept.close()


def test_a_hosts_metrics_are_shown_again(tmp_path, monkeypatch):
    with Bench(tmp_path) as bench:
        left = list(KINDS)
        serve = ThreadingHTTPServer.serve_forever

        def failing(server: Any, *arguments: Any) -> None:
            if left:
                raise left.pop()
            serve(server, *arguments)

        monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", failing)
        with exposed(bench.host, 1.0, 0) as port:
            reply = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=600)
            assert "tandem_host_people_asked" in reply.text
            assert not left


def test_who_says_nothing_to_a_hosts_metrics_takes_few_threads_and_for_a_moment(tmp_path):
    with Bench(tmp_path) as bench, exposed(bench.host, 1.0, 0) as port, ExitStack() as silent:
        before, most = threading.active_count(), 0
        for _ in range(200):
            silent.enter_context(socket.create_connection(("127.0.0.1", port or 0)))
            most = max(most, threading.active_count())
        assert 0 < most - before <= AT_ONCE
        until(lambda: threading.active_count() == before)
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=600).status_code == 200


def test_a_party_is_watched_on_whatever_happens_to_its_watcher(tmp_path, monkeypatch):
    left = list(KINDS)
    start = PartyProcess._start

    def failing(self: PartyProcess) -> Any:
        if left and sys._getframe(1).f_code.co_name == "_watch":
            raise left.pop()
        return start(self)

    monkeypatch.setattr(PartyProcess, "_start", failing)
    code = r"import os, time; os.write(1, b'up \xff\n'); os.write(1, b'more\n'); time.sleep(600)"
    lively = party(tmp_path, code)
    lively._lives = 100
    lively.wait_for("more")  # bytes that are no text end no reader
    first = lively.process
    first.kill()
    until(lambda: not left and lively.process is not first)
    until(lambda: len(lively.printed) == 4)
    lively.stop()
