"""The machine and the process: processors where the system cannot tell, and commands of Tandem's own Python."""

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import httpx
import pytest

from common.core import machine as capacity
from common.core import threads as supervised
from common.core.errors import Refused
from common.core.machine import on_all_cores, processors, python_environment
from common.core.threads import Supervised, Worker
from common.net import monitoring
from common.net.app import create_app, of_requests
from common.net.monitoring import write
from tests.referee.service.test_referee import until
from tests.support import served

ROOT = Path(__file__).parents[3]


def test_processors_are_counted_where_the_system_cannot_tell_which_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(process: int) -> set[int]:
        raise PermissionError(1, "Operation not permitted")

    for ours, machine, expected in ((lambda process: {3, 5, 8}, 7, 3), (refused, 7, 7), (None, 7, 7), (None, None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda machine=machine: machine)
        if ours is None:
            monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        else:
            monkeypatch.setattr(os, "sched_getaffinity", ours, raising=False)
        assert processors() == expected


def test_a_checkout_that_is_not_installed_is_found() -> None:
    """Its packages beside it, and nothing that says where it is but that the parent was started in it."""
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]; "
        "from common.core import machine; "
        "print(machine.python_environment()['PYTHONPATH'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(os.pathsep)[-1] == str(ROOT)


LIMITED = """
import os, signal, sys, time
from common.core import machine
machine.go_on_within(300 << 20, 1.0, lambda why: sys.stderr.write(f"refused: {why}\\n"))

"""
ENDINGS = {
    "print('done')": (0, "done", ""),
    "sys.exit(3)": (3, "", ""),
    "bytearray(1 << 30); time.sleep(60)": (1, "", "refused: took more than 300 MiB of memory"),
    "while True: pass": (1, "", "refused: took more than 1 s"),
    "list(range(10**9))": (1, "", "refused: took more than 300 MiB of memory"),  # holds the interpreter's lock
    "os.kill(os.getpid(), signal.SIGSEGV)": (1, "", "refused: ended the process by SIGSEGV"),
    "os.abort()": (1, "", "refused: ended the process by SIGABRT"),
    "os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)": (128 + signal.SIGTERM, "", ""),
    "raise ValueError('no')": (1, "", "ValueError: no"),
}


@pytest.mark.slow
def test_what_takes_too_much_is_ended_with_one_line_and_all_else_ends_as_it_would() -> None:
    for what, (status, out, err) in ENDINGS.items():
        command = [sys.executable, "-c", LIMITED + what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stdout.strip()) == (status, out), (what, done)
        assert done.stderr.strip().split("\n")[-1] == err, (what, done)
        assert not err.startswith("refused") or "\n" not in done.stderr.strip(), (what, done)


def test_a_control_group_with_less_memory_than_the_machine_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "_GROUP", tmp_path)
    machine = capacity.available_memory()
    assert 1 << 20 < machine < 1 << 50
    assert 1 << 20 < capacity.available_disk(tmp_path / "not" / "there") < 1 << 60
    (tmp_path / "memory.max").write_text(str(64 << 20))
    (tmp_path / "memory.current").write_text(str(60 << 20))
    (tmp_path / "memory.stat").write_text(f"anon {20 << 20}\ninactive_file {40 << 20}\n")
    assert capacity.available_memory() == 44 << 20
    (tmp_path / "memory.max").write_text("max")
    assert capacity.available_memory() == pytest.approx(machine, rel=0.5)


KINDS = (
    *(ValueError("x"), Refused("x"), MemoryError(), RecursionError(), StopIteration(), SystemExit(3)),
    *(KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()),
)
"""One exception of each kind that can end a thread."""


@pytest.fixture
def _soon(monkeypatch):
    monkeypatch.setattr(supervised, "PAUSE", 0.01)
    monkeypatch.setattr(supervised, "LONGEST", 0.02)


@pytest.mark.usefixtures("_soon")
def test_a_thread_that_fails_is_not_ready_until_it_has_worked_for_a_while(monkeypatch):
    """It is started again after an exception of each kind, and is well when it has ended, as intended."""
    monkeypatch.setattr(monitoring, "FRESH", 0.0)
    threads, going, left = Supervised("counting"), threading.Event(), list(KINDS)
    app = create_app("Test", "A service with a thread.", threads=[threads])

    def failures() -> str:
        return re.search(r'tandem_thread_failures_total{thread="counting"} \d+', write(of_requests(app)))[0][-1:]

    def work() -> None:
        if left:
            raise left.pop(0)
        going.wait(600)

    with served(app) as address, httpx.Client(base_url=address, trust_env=False, timeout=600) as client:
        assert (client.get("/v1/ready").status_code, failures()) == (200, "0")
        thread = threads.start(work, "for a test")
        assert thread.name == "counting for a test"
        until(lambda: threads.failures == len(KINDS))
        refused = client.get("/v1/ready")
        assert (refused.status_code, refused.json()["not_ready"]) == (503, "counting")
        assert "has ended unexpectedly" in refused.json()["detail"]
        assert (client.get("/v1/health").status_code, failures()) == (200, str(len(KINDS)))
        monkeypatch.setattr(supervised, "SETTLED", 0.0)
        threads.failed(RuntimeError(), 0.0)  # of another thread, which does not make this one well
        assert client.get("/v1/ready").status_code == 503
        going.set()
        thread.join(600)
        until(lambda: client.get("/v1/ready").status_code == 200)


@pytest.mark.usefixtures("_soon")
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


@pytest.mark.usefixtures("_soon")
def test_the_thread_of_a_worker_ends_with_it():
    worker = Worker("work")
    assert worker.submit(int, "7").result(600) == 7
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "work"]
    gone = weakref.ref(worker)
    del worker
    gc.collect()
    until(lambda: gone() is None)
    thread.join(600)
    assert not thread.is_alive()


THREADS = """
import numpy
from threadpoolctl import threadpool_info
from common.core.machine import on_one_thread
threads = lambda: {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
with on_one_thread():
    import scipy.linalg  # brings a library of its own
    print(*threads())
print(*threads())
"""


def test_linear_algebra_takes_one_thread_where_digits_must_not_depend_on_how_many_there_are():
    environment = python_environment() | {"OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "2"]


def test_work_on_all_cores_comes_back_in_order_also_from_work_within_it_and_ends_before_a_failure_is_raised():
    def double(piece: int) -> int:
        return 2 * piece

    assert on_all_cores(double, range(1)) == [0]
    assert on_all_cores(lambda outer: sum(on_all_cores(double, range(outer + 1))), range(40)) == [
        outer * (outer + 1) for outer in range(40)
    ]

    at_work, ended = threading.Event(), []

    def fails_last(piece: int) -> None:
        if piece == 1:
            assert at_work.wait(60)
            raise ValueError("the caller's own piece")
        at_work.set()
        ended.append(piece)

    with pytest.raises(ValueError, match="own piece"):
        on_all_cores(fails_last, range(2))
    assert ended == [0]


FORKED = """
import os, sys
from common.core.machine import on_all_cores
on_all_cores(lambda piece: piece, range(3))
child = os.fork()
found = on_all_cores(lambda piece: piece, range(100))
if child == 0:
    os._exit(found != list(range(100)))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_works_on_all_cores_without_the_threads_of_its_parent() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60, env=python_environment())
