"""Run the repetitions that are still missing, in parallel processes, each result stored as soon as it is there."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from benchmarks.figures.base import Figure, Procedure
from benchmarks.figures.store import Row
from common.core.errors import BadInput
from common.core.machine import processors

_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def missing(
    figure: Figure, points: Iterable[str], repetitions: int, rows: list[Row], procedure: Procedure = "tandem"
) -> list[tuple[str, int]]:
    """Return what is still to be measured: the first repetition of every point, then the second, and so on."""
    done = {(row.point, row.repetition) for row in rows if row.procedure == procedure}
    grid = [point for point in figure.points_of(procedure) if point in set(points)]
    wanted = [(point, number) for number in range(repetitions) for point in grid]
    return [task for task in wanted if task not in done]


def run(
    figure: Figure,
    tasks: list[tuple[str, int]],
    workers: int,
    keep: Callable[[Row], None],
    procedure: Procedure = "tandem",
) -> None:
    """Measure the tasks, and keep each result as soon as it is there.

    What was measured stays when this is interrupted or killed; work that had begun is lost.

    Args:
        workers: Processes; each computes with its share of the cores.
        keep: Stores a result, and tells of it.

    Raises:
        BadInput: If a process was killed (out of memory, most likely).
    """
    share_cores(workers)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, end_with_parent) as pool:
        waiting = iter(tasks)
        running: set[Future[Row]] = set()
        try:
            while True:
                for point, number in waiting:
                    running.add(pool.submit(_measure, figure, point, number, procedure))
                    if len(running) == workers:
                        break
                if not running:
                    return
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    keep(future.result())
        except BrokenProcessPool:
            raise BadInput(
                "a process was killed, most likely for want of memory: begin again with --workers 1; "
                "what was measured is kept"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def share_cores(workers: int) -> None:
    """Give each of so many processes that are yet to start its share of the cores."""
    share = str(max(1, processors() // workers))
    for name in _THREADS:  # read by the processes when they start: more threads than cores slow each other down
        os.environ.setdefault(name, share)


def end_with_parent() -> None:
    """End this process when the one that started it is killed: nobody waits for its results then."""
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _measure(figure: Figure, point: str, repetition: int, procedure: Procedure) -> Row:
    seed = figure.seed(point, repetition)
    began = time.perf_counter()
    measured = figure.measure(point, seed, procedure)
    return Row(point, repetition, seed, round(time.perf_counter() - began, 3), measured, procedure)
