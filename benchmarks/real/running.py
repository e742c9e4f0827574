"""Measure rows in parallel: one plan for all splits of a row, with the splits spread over processes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.figures.running import end_with_parent, share_cores
from benchmarks.real.methods import METHODS, Split
from benchmarks.real.shifts import Both, Shift, by_name, load
from common.core.errors import TandemError
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario, Scenario

CONFIDENCE = 0.95
_JUDGES = 3
"""One in this many of T's people is a judge; the others are agents."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One method on all splits of one shift.

    Attributes:
        epsilons: More than one only if the answer does not depend on it: then a row is written for each.
        agents: Most agents; None: as many as the data have.
    """

    shift: str
    method: str
    epsilons: tuple[float, ...]
    splits: int
    agents: int | None
    data: Path


class Planned(NamedTuple):
    """A task's resolved scenario, None if it is no protocol or was refused; and the time for planning."""

    scenario: ResolvedScenario | None
    refused: str | None
    seconds: float


class Facts(NamedTuple):
    """Fixed facts about a shift's people: how many, and their shares of +1."""

    n: int
    agents: int
    share_source: float
    share_target: float


class Found(NamedTuple):
    """The result of one split: its loss on the judges and what the answer states, or why it was refused."""

    loss: float | None
    gap: float | None
    chosen: str | None
    refused: str | None
    seconds: float


def facts(shift: Shift, people: Both, most: int | None) -> Facts:
    """Return how many people each split has on both sides."""
    there = len(people.target) - len(people.target) // _JUDGES
    shares = (float(np.mean(side.labels > 0)) for side in (people.source, people.target))
    return Facts(min(shift.people, len(people.source)), min(there, most or there), *shares)


def split(shift: Shift, people: Both, seed: int, most: int | None = None) -> Split:
    """Return one split: the volunteers, the agents and the judges, drawn with this seed."""
    rng = np.random.default_rng(seed)
    known = facts(shift, people, most)
    volunteers = people.source.take(rng.permutation(len(people.source))[: known.n])
    order = rng.permutation(len(people.target))
    judging = len(order) // _JUDGES
    agents = people.target.take(order[judging : judging + known.agents])
    return Split(shift, volunteers, agents, people.target.take(order[:judging]), seed)


def key(row: Row) -> tuple[Any, ...]:
    """Return the key of a row, to find it among earlier ones: all that its numbers depend on, except the code."""
    return tuple(row[name] for name in ("shift", "method", "epsilon", "n", "agents", "asked", "settings"))


def opened(task: Task) -> list[Row]:
    """Return the task's rows, one for each epsilon, with the fields that are known before measuring."""
    shift = by_name(task.shift)
    known = facts(shift, load(shift, task.data), task.agents)
    method = METHODS[task.method]
    return [
        {
            "shift": task.shift,
            "method": task.method,
            "epsilon": epsilon,
            "n": known.n,
            "agents": known.agents,
            "asked": task.splits,
            "settings": _digest(method.scenario(shift, known.n, known.agents, epsilon)),
            "share_source": known.share_source,
            "share_target": known.share_target,
        }
        for epsilon in task.epsilons
    ]


def _digest(scenario: Scenario | None) -> str:
    tree = None if scenario is None else scenario.wire()
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]


def closed(row: Row, found: list[Found], planning: float) -> Row:
    """Return a row with the results of its splits: the mean loss, its interval over splits, and what answers state."""
    losses = [one.loss for one in found if one.loss is not None]
    gaps = [one.gap for one in found if one.gap is not None]
    names = sorted({one.chosen for one in found if one.chosen is not None})
    refused = [one.refused for one in found if one.refused is not None]
    low, high = interval(losses)
    return {
        **row,
        "mean": statistics.mean(losses) if losses else None,
        "low": None if low is None else max(0.0, low),
        "high": None if high is None else min(1.0, high),
        "splits": len(losses),
        "losses": [round(loss, 6) for loss in losses],
        **({"gap": statistics.mean(gaps)} if gaps else {}),
        **({"chosen": {name: sum(one.chosen == name for one in found) for name in names}} if names else {}),
        **({"refused": refused[0]} if refused else {}),
        "plan_seconds": round(planning, 2),
        "split_seconds": round(statistics.mean(one.seconds for one in found), 2),
    }


def interval(values: list[float]) -> tuple[float | None, float | None]:
    """Return Student's interval of the mean at 95%; (None, None) for fewer than two values."""
    if len(values) < 2:
        return None, None
    width = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(values) - 1))
    spread = width * statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values) - spread, statistics.mean(values) + spread


def measure(tasks: Iterable[Task], jobs: int, keep: Callable[[Row], None]) -> None:
    """Measure tasks, and pass each row to ``keep`` as soon as it is finished, one at a time.

    If this is interrupted, kept rows stay, and splits that had begun are lost.

    Args:
        jobs: Processes; each computes with its share of the cores.
    """
    share_cores(jobs)
    plans: dict[str, Future[Planned]] = {}
    lock, keeping = threading.Lock(), threading.Lock()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, end_with_parent) as pool:

        def row(task: Task) -> None:
            rows = opened(task)
            with lock:
                settings = rows[0]["settings"]
                if settings not in plans:
                    plans[settings] = pool.submit(plan, task)
                planned = plans[settings]
            known = planned.result()
            found = [one.result() for one in [pool.submit(run, task, known, seed) for seed in range(task.splits)]]
            with keeping:
                for opening in rows:
                    keep(closed(opening, found, known.seconds))

        # One row more than processes: while the last splits of one run, the next one is planned.
        with ThreadPoolExecutor(jobs + 1) as threads:
            try:
                for done in [threads.submit(row, task) for task in tasks]:
                    done.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise


def plan(task: Task) -> Planned:
    """Resolve the task's scenario: its numbers are the same for all splits."""
    began = time.perf_counter()
    shift = by_name(task.shift)
    known = facts(shift, load(shift, task.data), task.agents)
    asked = METHODS[task.method].scenario(shift, known.n, known.agents, task.epsilons[0])
    try:
        return Planned(None if asked is None else resolve(asked), None, time.perf_counter() - began)
    except TandemError as error:
        return Planned(None, error.detail, time.perf_counter() - began)


def run(task: Task, planned: Planned, seed: int) -> Found:
    """Return the result of one split."""
    if planned.refused is not None:
        return Found(None, None, None, planned.refused, 0.0)
    began = time.perf_counter()
    shift = by_name(task.shift)
    people = split(shift, load(shift, task.data), seed, task.agents)
    try:
        answer = METHODS[task.method].answer(people, planned.scenario)
    except TandemError as error:
        return Found(None, None, None, error.detail, time.perf_counter() - began)
    loss = float(answer.hypothesis.mistakes(people.judges).mean())
    return Found(loss, answer.gap, answer.chosen, None, time.perf_counter() - began)
