"""Services to which people come before a run, under faults: an issuer that vouches, and a curator that collects.

Each fault strikes while somebody is at the service: their command goes on, or ends with one line, and the same command
gets there once the fault is gone. In the end the service holds one credential or record for each person, also after it
was killed, and gives nobody a second one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import yaml

import curator
import issuer
import local_agent
from benchmarks.faults.command import Command
from benchmarks.faults.kinds import KINDS, LASTING
from benchmarks.faults.machines import Machines
from benchmarks.faults.once import Struck

SERVICES = ("issuer", "collector")
STRIKES = tuple((kind, name) for name in SERVICES for kind in (*LASTING, *["killed"] * 5))
SECONDS = 4.0
"""How long a fault lasts, unless the person's command has ended before: a little longer than it takes without one."""
TABLE = {
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
    "features": [{"kind": "number", "column": "visits", "low": 0, "high": 30}],
    "norm": 1.4,
}
SGD = {"name": "sgd", "loss": "logistic", "steps": 20, "clip": 1.0, "noise": 20.0, "diameter": 10.0}
SCENARIO = {
    "name": "members",
    "title": "Who renews, learned from members who give their records",
    "protocol": "learn-and-test",
    "alpha": 0.1,
    "people": "simulated",
    "source": {"table": {**TABLE, "contributed": True}},
    "target": {"table": {**TABLE, "files": ["customers.csv"]}},
    "divergence": {"chi_squared": 1.5},
    "curator": {"n": 100, "kappa": 1.0, "eta": 0.4, "rounds": 1, "epsilon": 8.0, "delta": 1e-4, "learner": SGD},
    "agents": {"count": 20, "batch": 20, "mechanism": {"name": "warner", "epsilon": 4.0}},
}
"""What the curator collects for."""


@dataclass
class Visited:
    """A service that people come to.

    Attributes:
        come: The command of the person with a number, as ``python -m`` arguments.
        held: How many people have been there, as the service's own state says.
    """

    come: Callable[[int], list[str]]
    held: Callable[[], int]


def visit(folder: Path, name: str, kinds: Iterable[str]) -> Struck:
    """Strike a service while somebody is at it, somebody else for each fault.

    Args:
        folder: For states and logs.
        name: Of :data:`SERVICES`.
        kinds: Of the faults.
    """
    found = Struck(status="served")
    with ExitStack() as opened:
        machines = Machines(folder, opened)
        visited = {"issuer": _issuer, "collector": _collector}[name](machines)
        people: list[Command] = []
        for number, kind in enumerate(kinds):
            machines.set_clock(f"person-{number}", "+0")
            command = Command(machines, f"person-{number}", visited.come(number))
            people.append(command)
            opened.callback(command.stop)
            machines.wait_until_ready(name)
            with KINDS[kind](machines, name):
                command.start()
                went_on = command.succeeds(SECONDS)
                lacks = machines.lacks(name)
            found.faults.append({"kind": kind, "party": name, "lacks": lacks, "went_on": went_on})
            if not went_on and not command.succeeds():
                found.wrong += command.unclear()
                command.start()
                if not command.succeeds():
                    found.wrong.append(f"{name}, {kind}: does not get there once the fault is gone: {command.said}")
        for command in people:  # who comes again gets what they have, or is told so
            command.start()
            command.ended()
        found.answered, found.counted = len(people), visited.held()
    if found.answered != found.counted:
        found.wrong.append(f"{found.answered} people came to the {name}, which holds {found.counted}")
    return found


def _issuer(machines: Machines) -> Visited:
    command, state = f"{issuer.__name__}.cli", str(machines.equip("issuer"))

    def says(*arguments: str) -> str:
        whole = [sys.executable, "-m", command, *arguments, "--state", state]
        return subprocess.run(whole, check=True, capture_output=True, text=True).stdout

    codes = says("invite", "--count", str(len(STRIKES))).split()
    machines.serve("issuer", command, "serve", "--state", state).wait_for("listens on")

    def come(number: int) -> list[str]:
        where = ["--issuer", machines.urls["issuer"], "--issuer-key", f"{state}/issuer.json"]
        own = ["--code", codes[number], "--state", str(machines.folder / f"person-{number}")]
        return [f"{local_agent.__name__}.cli", "credential", *where, *own]

    def held() -> int:
        return _number(says("show"), r"([\d,]+) credentials issued")

    return Visited(come, held)


def _collector(machines: Machines) -> Visited:
    file, people = machines.folder / "members.yaml", machines.folder / "customers.csv"
    people.write_text("visits,renews\n" + "9,yes\n" * 20)
    file.write_text(yaml.safe_dump({**SCENARIO, "data": str(machines.folder)}))
    command = f"{curator.__name__}.cli"
    collect = [command, "collect", str(file), "--state", str(machines.equip("collector"))]
    collector = machines.serve("collector", *collect)
    key = collector.wait_for("--curator-key").split()[-1]
    collector.wait_for("listens on")

    def come(number: int) -> list[str]:
        where = ["--to", machines.urls["collector"], "--curator-key", key, "--yes"]
        own = ["--field", f"visits={number}", "--field", "renews=yes", "--state"]
        return [command, "contribute", *where, *own, str(machines.folder / f"person-{number}")]

    def held() -> int:
        collector.let_die(for_good=True)
        collector.stop()
        return _number(machines.serve("collector", *collect).wait_for("records are here"), r"(\d+) of")

    return Visited(come, held)


def _number(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else -1
