"""Shipped scenarios made small: with so few people that a run takes well under a second."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from common.scenario import loading
from common.scenario.scenario import Scenario

BALL = (
    "curator.n=1200",
    "curator.kappa=0.2",
    "curator.eta=0.2",
    "curator.rounds=3",
    "curator.epsilon=60",
    "curator.learner.steps=300",
    "agents.count=6000",
    "agents.mechanism.epsilon=2",
    "agents.batch=400",
    "agents.deadline=5",
)


def small_ball(*numbers: str) -> Scenario:
    """Return the scenario ``ball`` made small: Subsample-Test-Reweigh uses all its three rounds."""
    return loading.load("ball", [*BALL, *numbers])


def small_problem(name: str, people: dict[str, Any], *numbers: str) -> Scenario:
    """Return a shipped scenario about a problem, on other people of both sides, with other numbers."""
    places = [f"{side}.distribution={json.dumps(people)}" for side in ("source", "target")]
    return loading.load(name, [*places, "agents.deadline=5", *numbers])


def left_alone(side: str, examples: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """Return the examples of a protocol for what remains of it if ``side`` is asked alone."""
    return tuple(loading.altered(example, [f"alone={side}"]) for example in examples)
