"""A thread that ends is started again, counted and shown, whatever has ended it; a worker's callers always hear."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import httpx
import pytest

from common.core import threads as supervised
from common.core.errors import Refused
from common.core.threads import Supervised, Worker
from common.net import readiness
from common.net.app import create_app, of_requests
from common.net.metrics import write
from tests.referee.service.test_referee import until
from tests.support import served

KINDS = (
    ValueError("x"),
    Refused("x"),
    MemoryError(),
    RecursionError(),
    StopIteration(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
)
"""One exception of each kind that can end a thread."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(supervised, "PAUSE", 0.01)
    monkeypatch.setattr(supervised, "LONGEST", 0.02)


def test_a_thread_goes_on_after_an_exception_of_each_kind():
    threads, left, over = Supervised("work"), list(KINDS), threading.Event()

    def work() -> None:
        if left:
            raise left.pop(0)
        over.set()

    thread = threads.start(work, "for a test")
    assert thread.name == "work for a test"
    assert over.wait(600)
    thread.join(600)
    assert threads.failures == len(KINDS)
    assert threads.check() is None  # it has ended, as intended


def test_a_thread_that_fails_is_not_ready_until_it_has_worked_for_a_while(monkeypatch):
    monkeypatch.setattr(readiness, "FRESH", 0.0)
    threads, going = Supervised("counting"), threading.Event()
    app = create_app("Test", "A service with a thread.", threads=[threads])
    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=600) as client:
        assert client.get("/v1/ready").status_code == 200
        assert 'tandem_thread_failures_total{thread="counting"} 0' in write(of_requests(app))
        fail = threading.Event()

        def work() -> None:
            if not fail.is_set():
                fail.set()
                raise SystemExit(1)
            going.wait(600)

        thread = threads.start(work)
        until(lambda: threads.failures == 1)
        refused = client.get("/v1/ready")
        assert (refused.status_code, refused.json()["not_ready"]) == (503, "counting")
        assert "has ended unexpectedly" in refused.json()["detail"]
        assert client.get("/v1/health").status_code == 200
        assert 'tandem_thread_failures_total{thread="counting"} 1' in write(of_requests(app))
        monkeypatch.setattr(supervised, "SETTLED", 0.0)
        threads.failed(RuntimeError(), 0.0)  # of another thread, which does not make this one well
        assert client.get("/v1/ready").status_code == 503
        going.set()
        thread.join(600)
        until(lambda: client.get("/v1/ready").status_code == 200)


def test_what_a_worker_is_given_is_done_in_order_and_every_caller_hears_what_came_of_it():
    worker, done = Worker("work"), []

    def call(error: BaseException | None) -> int:
        done.append(error)
        if error is not None:
            raise error
        return len(done)

    given = [worker.submit(call, error) for error in (*KINDS, None)]
    for future, error in zip(given, KINDS, strict=False):
        raised = future.exception(600)
        plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        assert raised is error if plain else isinstance(raised, RuntimeError), error
    assert given[-1].result(600) == len(KINDS) + 1
    assert done == [*KINDS, None]
    assert worker.threads.failures == sum(not isinstance(error, Exception) for error in KINDS)
    worker.shutdown()


def test_a_worker_answers_an_event_loop_whatever_its_work_raises():
    worker = Worker("work")

    def fail(error: BaseException) -> None:
        raise error

    async def ask() -> list[BaseException | None]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            *(loop.run_in_executor(worker, fail, error) for error in KINDS), return_exceptions=True
        )

    found = asyncio.run(ask())
    assert all(isinstance(error, Exception) for error in found)
    worker.shutdown()


def test_the_thread_of_a_worker_ends_with_it():
    worker = Worker("work")
    assert worker.submit(int, "7").result(600) == 7
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "work"]
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    assert gone() is None
    thread.join(600)
    assert not thread.is_alive()
