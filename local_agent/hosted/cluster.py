"""Ray workers that draw simulated people's records and evaluate questions on them.

A worker's results are a function of the seed, the person and the question, and the host randomizes them in the order of
the slots. So the answers equal those of one process, even if a worker dies and Ray repeats its task. Values that are
not randomized yet travel through the cluster, so it is for simulated people only.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadInput
from common.data.population import RecordSource
from common.local.queries.query import Query
from local_agent.answers import Block, evaluate_people

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
try:
    import ray
except ImportError:  # an optional dependency
    raise BadInput("--workers needs Ray: install tandem-hybrid[ray], or host the people in this process") from None

AHEAD = 2  # blocks per worker that are being evaluated, or wait to be randomized, at the same time
PATIENCE = 10.0  # timeout for the connection to a cluster; Ray itself would wait for many minutes
STORE = 256 << 20  # bytes of Ray's shared memory on this machine


def over_workers(workers: int) -> Callable[[Query, RecordSource, Iterator[Block]], Iterator[tuple[Indices, AnyArray]]]:
    """Return a function that evaluates a question on blocks of people in that many workers, or raise BadInput."""
    _connect(workers)
    remote: Any = ray.remote(num_cpus=1, max_retries=3)(evaluate_people)

    def values(query: Query, population: RecordSource, blocks: Iterator[Block]) -> Iterator[tuple[Indices, AnyArray]]:
        asked, source = ray.put(query), ray.put(population)
        under_way: deque[tuple[Indices, Any]] = deque()
        for people, slots in blocks:
            under_way.append((slots, remote.remote(asked, source, people, slots)))
            if len(under_way) > AHEAD * workers:
                first, future = under_way.popleft()
                yield first, ray.get(future)
        for first, future in under_way:
            yield first, ray.get(future)

    return values


def _connect(workers: int) -> None:
    if ray.is_initialized():
        return
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    try:
        if address := os.environ.get("RAY_ADDRESS"):
            host, _, port = address.removeprefix("ray://").rpartition(":")
            if host and port.isdecimal():
                with closing(socket.create_connection((host, int(port)), PATIENCE)):
                    pass
            ray.init(address=address, **quiet)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, object_store_memory=STORE, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"the Ray cluster cannot be used ({reason}): see RAY_ADDRESS, or leave out --workers") from None
