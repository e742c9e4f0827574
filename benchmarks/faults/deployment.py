"""A curator, a referee, a witness and a host, as processes at which faults can strike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

import curator
import local_agent
import referee
from benchmarks.faults.machines import Machines
from common.core.durable import write_durably
from common.crypto.identity import Identity
from common.scenario.scenario import ResolvedScenario, settled
from deploy.remote import Remote
from referee.protocols.base import small_ball

PARTIES = ("witness", "curator", "referee", "host")


def scenario(rounds: int, people: int) -> ResolvedScenario:
    """Return a scenario of so many rounds, in each of which as many others of the hosted people are asked."""
    sizes = f"agents.count={rounds * people}", f"agents.batch={people}", f"curator.rounds={rounds}"
    return settled(small_ball(*sizes, "agents.deadline=3600", f"curator.epsilon={40 * rounds}"))


class Deployment(Machines):
    """The processes of a run.

    Args:
        folder: For states, logs and clocks.
        chosen: The scenario.
        opened: What ends when they do.
        hosted: How many people the host has; by default all that the scenario wants.

    Raises:
        BadInput: If no disk can be mounted here: that needs root.
    """

    def __init__(self, folder: Path, chosen: ResolvedScenario, opened: ExitStack, hosted: int | None = None) -> None:
        super().__init__(folder, opened)
        self.chosen = chosen
        of = {name: ["--state", str(self.equip(name))] for name in PARTIES}
        file = folder / "scenario.yaml"
        write_durably(file, yaml.safe_dump(chosen.wire()).encode())
        self.serve("witness", f"{referee.__name__}.cli", "witness", *of["witness"])
        key = Identity.load_or_create(Path(of["referee"][1]) / "identity.key").public
        known = ["--seed", "1", "--referee-key", key]
        self.serve("curator", f"{curator.__name__}.cli", "serve", str(file), *known, *of["curator"])
        self.parties["witness"].wait_for("listens on")
        ways = ["--curator", self.urls["curator"], "--witness", self.urls["witness"]]
        self.serve("referee", f"{referee.__name__}.cli", "serve", *ways, *of["referee"])
        self.parties["referee"].wait_for("listens on")
        ways = [str(file), "--seed", "1", "--referee", self.urls["referee"]]
        ways += [] if hosted is None else ["--agents", str(hosted)]
        self.start("host", f"{local_agent.__name__}.cli", "host", *ways, *of["host"])
        self.parties["curator"].wait_for("listens on")
        self.parties["host"].wait_for("hosts")
        self.remote = Remote(self.urls["referee"], self.token, patience=120.0)
        opened.callback(self.remote.close)


@contextmanager
def deployment(folder: Path, chosen: ResolvedScenario, hosted: int | None = None) -> Iterator[Deployment]:
    """Start the parties, and end them; the host has so many people (default: all that the scenario wants)."""
    with ExitStack() as opened:
        yield Deployment(folder, chosen, opened, hosted)
