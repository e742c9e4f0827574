"""The options of ``referee load-test``, which imports this module before it knows what to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from common.core.errors import BadInput

if TYPE_CHECKING:
    from common.scenario.scenario import ResolvedScenario

SCHEDULES = ("closed", "poisson", "at-once")
"""Closed: on each connection a request follows an answer. Poisson: random arrivals at a rate. At once: all together."""
_LEARN_ONCE = (
    *("protocol=learn-and-test", "curator.n=1200", "curator.kappa=0.2", "curator.eta=0.2", "curator.epsilon=60"),
    *("curator.rounds=1", "curator.learner.steps=300", "agents.mechanism.epsilon=1"),
)


@dataclass(frozen=True)
class Options:
    """The number of agents, and how they arrive; BadInput if the options are inconsistent."""

    individuals: Annotated[int, typer.Option(help="Agents with a key and requests of their own.", min=1)] = 10_000
    hosted: Annotated[
        int,
        typer.Option(help="People of hosted populations, beside them; with --url start their hosts yourself.", min=0),
    ] = 0
    hosts: Annotated[int, typer.Option(help="How many processes host them.", min=1)] = 1
    schedule: Annotated[
        str, typer.Option(help="closed (next request when one is answered), poisson (at --rate), at-once.")
    ] = "closed"
    rate: Annotated[float, typer.Option(help="Requests a second, for --schedule poisson.", min=0.0)] = 0.0
    connections: Annotated[int, typer.Option(help="Connections that are open, at most.", min=1)] = 128
    silent: Annotated[float, typer.Option(help="Share of the individuals that never report.", min=0.0, max=0.99)] = 0.0
    seconds: Annotated[float, typer.Option(help="How long the question waits for the silent.", min=1.0)] = 3600.0
    database: Annotated[str | None, typer.Option(help="Of the referee that is started (SQLAlchemy URL).")] = None
    idle: Annotated[int, typer.Option(help="Agents that poll after the run, with nothing to be asked.", min=0)] = 0
    idle_seconds: Annotated[float, typer.Option(help="How long they poll.", min=1.0)] = 30.0

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise BadInput(f"the schedule must be {', '.join(SCHEDULES)}, found {self.schedule!r}")
        if (self.schedule == "poisson") != (self.rate > 0.0):
            raise BadInput("a rate is for the schedule poisson, and that needs one")

    def scenario(self) -> ResolvedScenario:
        """Return the scenario: a curator of 1,200 people learns once, and all agents answer one question."""
        from common.scenario import loading
        from deploy.checking import checked

        sizes = [f"agents.count={self.individuals + self.hosted}", f"agents.deadline={self.seconds:g}"]
        return checked(loading.load("ball", [*_LEARN_ONCE, *sizes]))
