"""A sample whose shards are in workers of a Ray cluster that belongs to the curator."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from common.core.errors import BadScenario, PeerUnavailable
from common.core.machine import processors
from common.data.population import RecordSource
from curator.sample.base import Answer, Sample
from curator.sample.shard import Shard
from curator.sample.source import STORE, OnProgress, Source

log = logging.getLogger("tandem")

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
try:
    import ray
    from ray._private import worker as ray_worker
    from ray.exceptions import RayActorError, RayTaskError
except ImportError:  # an optional dependency
    raise BadScenario(
        "curator.storage.workers needs Ray: install tandem-hybrid[ray], or hold the sample in this process (workers: 0)"
    ) from None

MAX_LOSSES = 3  # number of consecutive replacements of a worker before giving up
PATIENCE = 10.0  # seconds in which a cluster must answer; Ray itself would wait for many minutes
Change = tuple[str, tuple[Any, ...]]
_CHANGES = (Shard.reweigh, Shard.refine, Shard.restore, Shard.bucket_sums)


class ClusterWorker:
    """One shard in a process of its own; it loads or draws its people itself, so that no record is sent to it.

    ``changes`` are the calls that changed the shard's scores so far, which are repeated: method names and arguments.
    """

    def __init__(self, source: Source, begin: int, end: int, threads: int, changes: list[Change]) -> None:
        self._shard = Shard(source.rows(source.population(), begin, end, threads, log.info), begin, threads)
        for question, arguments in changes:
            self.answer(question, arguments)

    def answer(self, question: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(self._shard, question)(*arguments)

    def process(self) -> int:
        return os.getpid()


class Cluster(Sample):
    """Shards in workers, called at the same time.

    A worker that dies is replaced. Its successor loads the same people again and repeats the changes of their scores,
    which are functions of public hypotheses; then it gets the calls that its predecessor left unanswered. If workers
    die repeatedly, every method may raise PeerUnavailable.

    Args:
        sizes: Number of records of each shard.
        threads: How many threads a worker may use.
        on_progress: Called with a line for each worker that was lost and replaced.
    """

    def __init__(
        self, source: Source, sizes: list[int], population: RecordSource, threads: int, on_progress: OnProgress
    ) -> None:
        layout = source.layout(population)
        super().__init__(sizes, layout.dimension, layout.dtype)
        self._source, self._threads, self._on_progress = source, threads, on_progress
        self._lock = threading.Lock()
        self._changes: list[list[Change]] = [[] for _ in sizes]
        self._workers = [self._start(shard) for shard in range(len(sizes))]

    def _start(self, shard: int) -> Any:
        begin = sum(self.sizes[:shard])
        remote: Any = ray.remote(num_cpus=1, max_restarts=0)(ClusterWorker)
        return remote.remote(self._source, begin, begin + self.sizes[shard], self._threads, self._changes[shard])

    def end(self) -> None:
        while self._workers:
            ray.kill(self._workers.pop())

    def processes(self) -> list[int]:
        try:
            pids: list[int] = ray.get([worker.process.remote() for worker in self._workers])
        except RayActorError as error:
            raise PeerUnavailable(f"a worker of the sample cannot start: {str(error).splitlines()[-1]}") from None
        return pids

    def ask(self, question: Callable[..., Answer], arguments: Mapping[int, tuple[Any, ...]]) -> list[Answer]:
        name = question.__name__
        workers = [(shard, self._workers[shard]) for shard in arguments]
        pending = [worker.answer.remote(name, arguments[shard]) for shard, worker in workers]
        answers = []
        for (shard, worker), answer in zip(workers, pending, strict=True):
            answers.append(self._answer(shard, worker, answer, name, arguments[shard]))
            if question in _CHANGES:
                changes = [] if question is Shard.restore else self._changes[shard]
                changes = [change for change in changes if change[0] != Shard.bucket_sums.__name__]
                self._changes[shard] = [*changes, (name, arguments[shard])]
        return answers

    def _answer(self, shard: int, worker: Any, answer: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        for _ in range(MAX_LOSSES):
            try:
                return ray.get(answer)
            except RayTaskError as error:
                raise error.cause or error from None
            except RayActorError:
                worker = self._replaced(shard, worker)
                answer = worker.answer.remote(name, arguments)
        raise PeerUnavailable(
            f"worker {shard} of the sample died {MAX_LOSSES} times in a row: "
            f"see its log, and whether its machine has memory enough"
        )

    def _replaced(self, shard: int, lost: Any) -> Any:
        """Return the successor of a worker; the first caller that misses the worker starts it."""
        with self._lock:
            if self._workers[shard] is lost:
                size, changes = self.sizes[shard], len(self._changes[shard])
                self._on_progress(
                    f"worker {shard} of {len(self.sizes)} was lost; its successor brings the same {size:,} people "
                    f"and repeats {changes} changes of their weights"
                )
                self._workers[shard] = self._start(shard)
            return self._workers[shard]


def open_cluster(source: Source, population: RecordSource, on_progress: OnProgress) -> Sample:
    """Return the sample in as many workers as the scenario names, on the cluster of ``RAY_ADDRESS`` or on this machine.

    Raises BadScenario if the cluster does not answer, and PeerUnavailable if a worker cannot start.
    """
    workers, n = source.scenario.curator.storage.workers, source.size
    sizes = [n * (k + 1) // workers - n * k // workers for k in range(workers)]
    with ExitStack() as resources:
        if not ray.is_initialized():
            _connect(workers, max(sizes))
            resources.callback(ray.shutdown)
        cores = processors()
        threads = cores if os.environ.get("RAY_ADDRESS") else max(1, cores // workers)
        sample = Cluster(source, sizes, population, threads, on_progress)
        resources.callback(sample.end)
        for shard, process in enumerate(sample.processes()):
            on_progress(f"worker {shard} of {workers} is process {process} and holds {sizes[shard]:,} people")
        sample.resources.push(resources.pop_all())
    return sample


def _connect(workers: int, largest: int) -> None:
    # Lost workers are reported here; Ray would also print them to the caller's standard output.
    ray_worker._worker_logs_enabled = False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    try:
        if address := os.environ.get("RAY_ADDRESS"):
            host, _, port = address.removeprefix("ray://").rpartition(":")
            if host and port.isdecimal():
                socket.create_connection((host, int(port)), PATIENCE).close()
            ray.init(address=address, **quiet)
        else:
            # Room for transfers: proposals, drawn records, and a shard's scores when they are stored.
            ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=STORE + 2 * largest, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadScenario(f"the Ray cluster cannot be used ({reason}): see RAY_ADDRESS, or take workers: 0") from None
