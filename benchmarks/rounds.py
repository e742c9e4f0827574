"""Where the time of a round goes, as a service and as a simulation; or what it takes beside its computing, over HTTP.

    python -m benchmarks.rounds [JOB ...] [--rounds 6] [--small] [--json]
    python -m benchmarks.rounds --over-http [--rounds 200] [--json]

The first prints, for each job, the median seconds of a round (from one call of the learner to the next; the first one
is left out, which also compiles and loads), the CPU seconds of all cores, and what share of either its parts take.
Each row is a process of its own. ``service`` has all parties with their keys, ledgers and databases in one process
(:class:`deploy.deployment.Embedded`), ``simulation`` is the same script without them (:mod:`deploy.simulation`).

The second runs the first rounds of ``ball-paper-nonprivate`` with one seed in one process and as real processes. These
compute, store and sign the same; what a round takes longer is the way over HTTP. Of the exchanges with the curator also
the referee's own share is printed: everything in an exchange but the curator's work, that is request, checks,
signatures and the transaction.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection
from sqlalchemy.engine.default import DefaultDialect

from benchmarks.floors import peak
from common.core import canonical, durable
from common.core.arrays import Floats
from common.crypto import identity
from common.local.queries.query import AskAgents
from common.operations.operation import Learn
from common.scenario.loading import load
from common.scenario.scenario import ResolvedScenario
from curator.curator import Curator
from curator.engine import Engine
from deploy.checking import checked
from deploy.deployment import Embedded, RunOutput
from deploy.processes import Processes
from deploy.simulation import SimulatedAgents, conduct
from local_agent import answers
from local_agent.hosted.population import Population
from referee.collection import order
from referee.collection.collection import ReportCollection

SEED = 1
_PRIVATE = ("ball-paper-size", "curator.n=3247000", "curator.learner.steps=500000", "curator.epsilon=8")
_WIDE = ("ball-paper-nonprivate",)
_LINEAR = ("halfspace", "baselines=[]")
JOBS: dict[str, tuple[str, ...]] = {
    "a1": (*_PRIVATE, "agents.batch=1000000"),
    "a2": (*_PRIVATE, "agents.batch=3375"),
    "a3": (*_PRIVATE, "curator.n=64900000", "curator.learner.steps=10000000", "agents.batch=1000000"),
    "a4": (*_PRIVATE, "agents.batch=10000000"),
    "b1": (*_WIDE, "agents.batch=50000"),
    "b2": _WIDE,
    "c1": (*_LINEAR, "agents.batch=40000"),
    "c2": _LINEAR,
}
"""The scenario and its overrides, by job; a round asks ``agents.batch`` agents, or a few times that."""
SMALL: dict[str, tuple[str, ...]] = {
    "a": ("curator.n=200000", "curator.learner.steps=20000", "agents.batch=3375"),
    "b": ("curator.n=5000", "agents.batch=32"),
    "c": ("curator.n=3000", "curator.learner.draws=1000", "agents.batch=100"),
}
"""Overrides for ``--small``, by the first letter of the job: the same parts in seconds."""
MODES = ("service", "simulation")
REST = "rest"


@dataclass
class Split:
    """The seconds of one thread by part, each without the parts nested in it, and a mark at the beginning of a round.

    A part has two numbers, shape (2,): wall-clock time, and CPU time of all cores, which is more reliable on a machine
    with other load. The work of other threads counts for the part that waits for them.
    """

    spent: dict[str, Floats] = field(default_factory=dict)
    marks: list[tuple[Floats, dict[str, Floats], int]] = field(default_factory=list)
    asked: int = 0
    _inside: list[Floats] = field(default_factory=list)
    _thread: int = field(default_factory=threading.get_ident)

    def mark(self) -> None:
        self.marks.append((_now(), dict(self.spent), self.asked))

    def timed(self, work: Callable[..., Any], part: str | Callable[..., str]) -> Callable[..., Any]:
        """Return the function with a timer, which ignores calls in other threads."""

        @functools.wraps(work)
        def measured(*given: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return work(*given, **named)
            name = part if isinstance(part, str) else part(*given)
            began = _now()
            self._inside.append(np.zeros(2))
            try:
                return work(*given, **named)
            finally:
                took = _now() - began
                self.spent[name] = self.spent.get(name, np.zeros(2)) + (took - self._inside.pop())
                if self._inside:
                    self._inside[-1] += took

        return measured

    def rounds(self) -> list[dict[str, Any]]:
        """Return for each whole round its seconds, the agents asked and the parts."""
        found = []
        for before, after in itertools.pairwise(self.marks):
            took, none = after[0] - before[0], np.zeros(2)
            parts = {name: spent - before[1].get(name, none) for name, spent in after[1].items()}
            parts[REST] = took - sum(parts.values(), none)
            found.append({"seconds": took, "asked": after[2] - before[2], "parts": parts})
        return found


def _now() -> Floats:
    return np.array([time.perf_counter(), time.process_time()])


@contextmanager
def split() -> Iterator[Split]:
    """Measure how the time of this thread is spent; the patched functions are restored at the end."""
    found = Split()

    def operation(engine: Engine, number: str, asked: Any, *more: Any) -> str:
        if isinstance(asked, Learn):
            found.mark()
        return str(asked.kind)

    def question(who: Any, number: Any, *more: Any) -> str:
        step = next(each for each in (number, *more) if isinstance(each, AskAgents))
        found.asked += step.count
        return "agents, messages"

    places: tuple[tuple[Any, str, str | Callable[..., str]], ...] = (
        (Engine, "run", operation),
        (ReportCollection, "ask", question),
        (SimulatedAgents, "answer", question),
        (Population, "answer", "host"),
        (answers, "evaluate_people", "people"),
        (answers, "randomize", "randomized"),
        (order, "form_batch", "order"),
        (order, "form_mass", "order"),
        (order.Order, "slice", "order"),
        (canonical, "encode", "JSON"),
        (canonical, "decode", "JSON"),
        (identity.Identity, "sign_bytes", "signatures"),
        (identity, "_verifies", "signatures"),
        (durable, "write_durably", "files"),
        (Connection, "execute", "SQL"),
        (DefaultDialect, "do_commit", "commits"),
    )
    with ExitStack() as patched:
        for owner, name, part in places:
            original = getattr(owner, name)
            timed = found.timed(original, part)
            holders = [owner] if isinstance(owner, type) else _importers(name, original)
            for holder in holders:
                setattr(holder, name, timed)
                patched.callback(setattr, holder, name, original)
        yield found


def _importers(name: str, original: Any) -> list[Any]:
    """Return all modules that hold a function under its name."""
    return [module for module in list(sys.modules.values()) if vars(module).get(name) is original]


def scenario_of(job: str, rounds: int, small: bool) -> ResolvedScenario:
    """Return a job's scenario with one round more than is measured, and one for compilation."""
    name, *sets = JOBS[job]
    smaller = SMALL[job[0]] if small else ()
    return checked(load(name, [*sets, *smaller, f"curator.rounds={rounds + 2}"]))


def measure(job: str, mode: str, rounds: int, small: bool) -> dict[str, Any]:
    """Run a job in this process; return the medians of its rounds."""
    chosen = scenario_of(job, rounds, small)
    with tempfile.TemporaryDirectory(prefix="rounds-") as name, split() as found:
        if mode == "service":
            Embedded(Path(name)).run(chosen, SEED, "rounds", _quiet)
        else:
            conduct(chosen, SEED, lambda number, hypothesis: None)
    measured = found.rounds()[1:]
    if not measured:
        raise SystemExit(f"{job}: the run ended in its first rounds: there is nothing to measure")
    names = sorted({name for each in measured for name in each["parts"]})
    seconds = _median([each["seconds"] for each in measured])
    return {
        "job": job,
        "mode": mode,
        "rounds": len(measured),
        "asked": statistics.median(each["asked"] for each in measured),
        "seconds": seconds[0],
        "cpu_seconds": seconds[1],
        "parts": {name: _median([each["parts"].get(name, np.zeros(2)) for each in measured]) for name in names},
        "peak_gib": peak(),
    }


def _median(rows: list[Floats]) -> list[float]:
    return [float(middle) for middle in np.median(rows, axis=0)]


def _quiet(text: str, numbers: dict[str, float]) -> None:
    pass


def row(found: dict[str, Any]) -> str:
    """Return the printed row of a job in one mode: its parts above one percent, by decreasing CPU time."""
    wall, cpu = found["seconds"], found["cpu_seconds"]
    parts = sorted(found["parts"].items(), key=lambda part: -part[1][1])
    shown = [
        f"{name} {own / wall:.0%} {busy / cpu:.0%}"
        for name, (own, busy) in parts
        if own > wall / 100 or busy > cpu / 100
    ]
    return (
        f"{found['job']:<4}{found['mode']:<11}{found['asked']:>11,.0f} asked  {wall:.4f} s  CPU {cpu:.4f} s  "
        f"{found['peak_gib']:.2f} GiB  {', '.join(shown)}"
    )


@contextmanager
def timed_curator() -> Iterator[list[float]]:
    """Record how many seconds every operation of a curator in this process takes."""
    took: list[float] = []
    perform = Curator.perform

    def measured(self: Curator, signed: Any) -> Any:
        began = time.perf_counter()
        try:
            return perform(self, signed)
        finally:
            took.append(time.perf_counter() - began)

    Curator.perform = measured  # type: ignore[method-assign]  # the timed method calls the real one
    try:
        yield took
    finally:
        Curator.perform = perform  # type: ignore[method-assign]  # restore it


def questions(finished: RunOutput) -> int:
    """Return how many questions a run asked."""
    return sum(json.loads(line)["kind"] == "question" for line in finished.transcript.splitlines())


def compare(chosen: ResolvedScenario) -> dict[str, Any]:
    """Run a scenario both ways, and return the time of a round."""

    def quiet(text: str, numbers: dict[str, float]) -> None:
        pass

    with tempfile.TemporaryDirectory(prefix="rounds-") as name:
        Embedded(Path(name) / "compiled").run(chosen, SEED, "compiled", quiet)  # loops are compiled or loaded here
        with timed_curator() as took:
            embedded = Embedded(Path(name) / "embedded").run(chosen, SEED, "rounds", quiet)
        over_http = Processes(Path(name) / "processes").run(chosen, SEED, "rounds", quiet)
    rounds = questions(embedded)
    if questions(over_http) != rounds:
        raise SystemExit("the two runs differ: they are no measure of each other")
    here, there = embedded.result["seconds"], over_http.result["seconds"]
    return {
        "rounds": rounds,
        "exchanges": len(took),
        "embedded_ms": round(1e3 * here["total"] / rounds, 2),
        "over_http_ms": round(1e3 * there["total"] / rounds, 2),
        "http_ms": round(1e3 * (there["total"] - here["total"]) / rounds, 2),
        "exchange_ms": round(1e3 * (here["curator"] - sum(took)) / len(took), 3),
    }


def over_http(rounds: int, as_json: bool) -> None:
    """Measure and print the time of a round over HTTP."""
    found = compare(checked(load("ball-paper-nonprivate", [f"curator.rounds={rounds}"])))
    if as_json:
        print(json.dumps(found))
        return
    print(f"{found['rounds']} rounds, {found['exchanges']} exchanges with the curator")
    print(
        f"a round: {found['embedded_ms']:g} ms in one process, {found['over_http_ms']:g} ms over HTTP, "
        f"{found['http_ms']:g} ms more"
    )
    print(f"the referee's own share of an exchange: {found['exchange_ms']:g} ms")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; all by default")
    parser.add_argument("--over-http", action="store_true", help="what a round takes beside its computing, over HTTP")
    parser.add_argument("--rounds", type=int, help="how many are measured: 6, or 200 over HTTP")
    parser.add_argument("--small", action="store_true", help="few people: in seconds, to see that it works")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--here", choices=MODES, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if unknown := [job for job in wanted.jobs if job not in JOBS]:
        parser.error(f"no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
    if wanted.over_http:
        over_http(wanted.rounds or 200, wanted.json)
        return
    rounds = wanted.rounds or 6
    if wanted.here:
        print(json.dumps(measure(wanted.jobs[0], wanted.here, rounds, wanted.small)))
        return
    found = []
    for job in wanted.jobs or JOBS:
        for mode in MODES:
            command = [sys.executable, "-m", __spec__.name, job, "--here", mode, "--rounds", str(rounds)]
            done = subprocess.run([*command, *["--small"] * wanted.small], stdout=subprocess.PIPE, check=True)
            found.append(json.loads(done.stdout))
            if not wanted.json:
                print(row(found[-1]), flush=True)
    if wanted.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
