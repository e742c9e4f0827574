"""The machine and the process that Tandem runs in: processors, memory, interrupts, forks, and timing of answers."""

import math
import os
import pickle
import re
import shutil
import signal
import site
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast

from common.core.errors import BadInput, BadScenario, RunFailed

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def processors() -> int:
    """Return how many processors this process may use or, if the system does not state that, the machine has."""
    with suppress(AttributeError, OSError):  # macOS has no such call, and some sandboxes refuse it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(work: Callable[[T], R], pieces: Sequence[T]) -> list[R]:
    """Apply compiled work to each piece, with one thread per processor; this thread takes the last piece."""
    *rest, last = pieces
    futures = [further_cores().submit(work, piece) for piece in rest]
    try:
        results = [work(last)]
        for piece, future in zip(reversed(rest), reversed(futures), strict=True):
            # Pieces that no thread has started are done here, so that nested calls cannot deadlock.
            results.append(work(piece) if future.cancel() else future.result())
    finally:
        for future in futures:
            if not future.cancel():
                future.exception()  # wait for it, since it works on the caller's data
    return results[::-1]


@cache
def further_cores() -> ThreadPoolExecutor:
    """Return a pool of one thread fewer than processors; they wait, as starting one takes as long as much work."""
    return ThreadPoolExecutor(max(1, processors() - 1), "cores")


@cache
def _linear_algebra() -> Any:
    """Return the controller of NumPy's and SciPy's linear algebra threads; finding both takes milliseconds."""
    import scipy.linalg  # noqa: F401 - loads SciPy's library
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_one_thread() -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread, since the last digits of a product depend on the number of threads."""
    return cast(AbstractContextManager[Any], _linear_algebra().limit(limits=1, user_api="blas"))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay an interrupt (Ctrl-C, a notebook's stop button) of the main thread until the block ends.

    This is for imports: a large library cannot be imported again after an interrupt has left it partly loaded.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: waiting.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, waiting[0])


def python_module(name: str) -> list[str]:
    """Return the command that runs a module of Tandem, without importing from the working directory."""
    return [sys.executable, "-P", "-m", name]


def python_environment() -> dict[str, str]:
    """Return this process's environment, extended so that :func:`python_module` finds the Tandem that runs here.

    That may be a checkout that is not installed.
    """
    root = str(Path(__file__).resolve().parents[__name__.count(".")])
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if root not in (*site.getsitepackages(), site.getusersitepackages(), *places):
        places.append(root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)} if places else dict(os.environ)


def end_with_stdin() -> None:
    """End this process when its standard input ends, which happens when its parent ends."""

    def end_at_eof() -> None:
        # Not through sys.stdin: a thread that holds its lock at the interpreter's exit would crash it.
        while os.read(0, 1 << 12):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_at_eof, daemon=True, name="parent").start()


_LOOK = 0.01  # seconds between two checks of a process's usage
_BUSY = 0.8  # share of the time limit that must have been processor time before a process is ended


def go_on_within(memory: int, seconds: float, refusal: Callable[[str], None]) -> None:
    """Continue in a child process with limits on memory and time; this process waits, and ends as the child does.

    It is for commands that read untrusted input, and must be called before any thread is started. Without ``/proc``
    there are no limits, and this process continues itself.

    Args:
        memory: Most resident bytes at any time.
        seconds: Time limit, which applies if most of it was processor time, not waiting on a busy machine.
        refusal: Called with the reason for which the child was ended; this process then ends with status 1.
    """
    if not Path("/proc/self/statm").exists():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    forwarded = (signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)  # until there is a handler
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    for number in forwarded:
        signal.signal(number, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    reason, status, until = "", 0, time.monotonic() + seconds
    while not reason:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        reason = _exceeded(child, memory, seconds if time.monotonic() > until else math.inf)
        time.sleep(_LOOK)
    if reason:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    elif os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    elif os.WTERMSIG(status) in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os._exit(128 + os.WTERMSIG(status))
    else:
        reason = f"ended the process by {signal.Signals(os.WTERMSIG(status)).name}"
    refusal(reason)
    os._exit(1)


def cpu_seconds(process: int) -> float:
    """Return the processor seconds of a process, over all threads; OSError or IndexError if it has ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _exceeded(process: int, memory: int, seconds: float) -> str:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        cpu_time = cpu_seconds(process)
    except (OSError, IndexError):
        return ""
    if pages * os.sysconf("SC_PAGE_SIZE") > memory:
        return f"took more than {memory >> 20} MiB of memory"
    if cpu_time > _BUSY * seconds:
        return f"took more than {seconds:g} s"
    return ""


_THREAD_OF_POLARS = re.compile(r"polars-\d")
_forked = {"with threads": False, "without them": False}
"""Whether Polars had started its threads when this process last forked, and whether they are missing here."""


def _before_fork() -> None:
    _forked["with threads"] = "polars" in sys.modules and _polars_has_threads()


def _after_fork() -> None:
    _forked["without them"] |= _forked["with threads"]
    further_cores.cache_clear()  # its threads are missing, too


def _polars_has_threads() -> bool:
    tasks = Path("/proc/self/task")  # Polars starts its threads at the first query
    for task in tasks.iterdir() if tasks.is_dir() else ():
        with suppress(OSError):  # it ended just now
            if _THREAD_OF_POLARS.match((task / "comm").read_text()):
                return True
    return not tasks.is_dir()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def works_after_fork(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function or method work in a process that was forked from one that has used Polars.

    There Polars would wait forever for its threads, which a forked process lacks. So a new process carries out the
    call; its result or exception, its warnings, and the attributes that a method has set on its object are returned.

    Raises:
        BadInput: In such a process, if the arguments cannot be sent to another process.
        RunFailed: In such a process, if the other one was killed; the budget that it was allowed counts as spent.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if not _forked["without them"]:
            return function(*args, **kwargs)
        return cast(R, _in_a_fresh_process(called, args, kwargs))

    return called


_FRESH = f"""
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from {__name__} import answer_parent
answer_parent(int(sys.argv[1]))
"""


def _in_a_fresh_process(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        request = pickle.dumps(sys.path) + pickle.dumps((function, args, kwargs))
    except Exception as error:  # whatever a class of the caller's raises
        raise _forked_too_late(error) from error
    reading, writing = os.pipe()
    with open(reading, "rb") as answers:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module, arguments as a list
                [sys.executable, "-P", "-c", _FRESH, str(writing)], stdin=subprocess.PIPE, pass_fds=[writing]
            )
        finally:
            os.close(writing)
        with process:
            try:
                with suppress(BrokenPipeError):
                    cast(Any, process.stdin).write(request)
                    cast(Any, process.stdin).flush()  # and leave it open: its end would end the process
                answer = answers.read()
            finally:
                process.kill()
    if not answer:
        raise RunFailed(f"the process that carried out {function.__qualname__} ended without an answer")
    result, exception, estimator, warned = pickle.loads(answer)  # noqa: S301 - of a process of our own
    for message, category, filename, line in warned:
        warnings.warn_explicit(message, category, filename, line)
    if estimator is not None:
        params = args[0].get_params(deep=False)
        fitted = {name: value for name, value in vars(estimator).items() if name not in params}
        for name in vars(args[0]).keys() - params.keys() - fitted.keys():
            delattr(args[0], name)
        vars(args[0]).update(fitted)
        result = args[0] if result is estimator else result
    if exception is not None:
        raise exception
    return result


def answer_parent(descriptor: int) -> None:
    """Carry out the call that is read from standard input, and write its outcome to a descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    result: Any = None
    error: Exception | None = None
    estimator: Any = None
    try:
        function, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301 - of a process of our own
    except Exception as unreadable:  # noqa: BLE001 - whatever a class of the caller's raises
        error, records = _forked_too_late(unreadable), []
    else:
        end_with_stdin()
        estimator = args[0] if args and hasattr(args[0], "get_params") else None
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            try:
                result = function(*args, **kwargs)
            except Exception as raised:  # noqa: BLE001 - the parent raises it
                error = raised.with_traceback(None)
    warned = [(each.message, each.category, each.filename, each.lineno) for each in records]
    with open(descriptor, "wb") as answers:
        answers.write(pickle.dumps((result, error, estimator, warned)))


def _forked_too_late(error: Exception) -> BadInput:
    return BadInput(
        "this process was forked off one in which Polars had begun its threads, which it lacks, and the call cannot be "
        f"brought to a fresh process ({type(error).__name__}: {error}): start it by spawn or forkserver instead of fork"
    )


SPARE = 256 << 20  # bytes that must remain free, for the work itself and the rest of the machine
_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Return how many bytes this process may still allocate without swapping, by the machine and its control group."""
    try:
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        machine = int(facts["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):  # not Linux: all memory, some of which is in use
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = int((_GROUP / "memory.max").read_text())
        used = int((_GROUP / "memory.current").read_text())
        facts = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return min(machine, limit - used + int(facts["inactive_file"]))
    except (OSError, KeyError, ValueError):
        return machine


def available_disk(folder: Path) -> int:
    """Return how many bytes may still be written where ``folder`` is, or will be."""
    return shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free


def check_memory(what: str, needed: int, remedy: str) -> None:
    """Raise BadScenario, which states what is needed and available, if something does not fit into memory."""
    _check(what, "memory", needed, available_memory(), remedy)


def check_disk(what: str, needed: int, folder: Path, remedy: str) -> None:
    """Raise BadScenario, as :func:`check_memory` does, if something does not fit on the disk of ``folder``."""
    available = available_disk(folder)
    _check(what, f"disk at {folder}", needed, available, "make room there" if available < SPARE else remedy)


def _check(what: str, where: str, needed: int, available: int, remedy: str) -> None:
    if needed + SPARE > available:
        raise BadScenario(f"{what} needs {size(needed + SPARE)} of {where}, {size(available)} are available: {remedy}")


def size(count: int) -> str:
    """Return a number of bytes as a text in MiB or GiB."""
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"


@dataclass(frozen=True)
class Schedule:
    """The times at which answers are sent: at one of the public points unit, 2 unit, 4 unit, ... seconds after a start.

    It reveals only which point that was: nothing if the unit bounds the work's time, else its logarithm, rounded up.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @contextmanager
    def held(self, unit: float | None) -> Iterator[None]:
        """Delay the end of the block, also after an exception, to a point of the schedule; without a unit, do not."""
        began = self.now()
        try:
            yield
        finally:
            if unit is not None:
                took, point = self.now() - began, unit
                while point < took:
                    point *= 2.0
                self.sleep(max(0.0, point - took))
