"""A first scenario for one's own tables: everything that is not said follows from public sizes and budgets alone.

Nothing here reads a record. The two numbers of rows are public by the design of a scenario; bounds, values and labels
are what somebody knows of the columns without looking at them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.data.tables.source import Feature, Label
from common.local.mechanisms.warner import Warner
from common.planning.fitting import Advice, Sizes, advise, diameter, steps

CLIP = 1.0
"""Longest gradient of one record."""
ACCURACY = {"portfolio": 0.01, "learn-and-test": 0.1}
"""Judges go on until the answer is shown to be within .01 of the best candidate; one model is estimated to .1."""
BETA = 0.05


@dataclass(frozen=True)
class Start:
    """What somebody says of two tables, all of it public.

    Attributes
    ----------
    name
        Of the scenario: small letters, digits and dashes.
    data
        Directory of the files.
    source, target
        The files of the curator's people and of the agents'.
    n, agents
        How many rows they have.
    label
        What is to be predicted.
    features
        What it is predicted from, at least one.
    epsilon, delta
        The curator's budget.
    agent_epsilon
        Of each agent's one answer.
    separator
        Between the fields of text files.
    id_column
        The column that says who is who, None if there is none.
    """

    name: str
    data: str
    source: str
    target: str
    n: int
    agents: int
    label: Label
    features: tuple[Feature, ...]
    epsilon: float
    delta: float
    agent_epsilon: float
    separator: str = ","
    id_column: str | None = None

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return sum(feature.width for feature in self.features)


def usual_delta(n: int) -> float:
    """Return a power of ten that is at most 1/(10 n).

    A guarantee with delta = 1/n would allow that one of n people be published as they are, so it must be well below.
    """
    return float(f"1e{-math.ceil(math.log10(10.0 * max(n, 1)))}")


def advised(start: Start) -> Advice:
    """Return what fits so many people (:func:`common.planning.fitting.advise`)."""
    ball = diameter(start.n, start.epsilon, start.delta, start.dimension)
    return advise(
        Sizes(
            n=start.n,
            agents=start.agents,
            dimension=start.dimension,
            epsilon=start.epsilon,
            delta=start.delta,
            mechanism=Warner(epsilon=start.agent_epsilon),
            beta=BETA,
            reach=CLIP * ball / 2.0,
        )
    )


def scenario_tree(start: Start) -> Mapping[str, Any]:
    """Return the scenario's tree, without the keys whose defaults hold."""
    found = advised(start)
    table = _told(start)
    learner = {
        "name": "sgd",
        "loss": "logistic",
        "steps": steps(start.n),
        "clip": CLIP,
        "noise": "plan",
        "diameter": float(f"{diameter(start.n, start.epsilon, start.delta, start.dimension):.3g}"),
    }
    tree: dict[str, Any] = {
        "name": start.name,
        "title": f"{start.label.column}, learned from {start.source}, tested on {start.target}",
        "data": start.data,
        "protocol": found.protocol,
        "alpha": ACCURACY[found.protocol],
        "people": "real",
        "source": {"table": {"files": [start.source], **table}},
        "target": {"table": {"files": [start.target], **table}},
        "curator": {
            "n": start.n,
            "epsilon": start.epsilon,
            "delta": start.delta,
            "rounds": found.rounds,
            "learner": learner,
        },
        "agents": {"count": start.agents, "mechanism": {"name": "warner", "epsilon": start.agent_epsilon}},
    }
    if found.protocol == "portfolio" and found.repair == 0.0:
        tree["portfolio"] = {"repair": 0.0}
    return tree


def _told(start: Start) -> dict[str, Any]:
    """Return what both tables have in common."""
    layout = {} if start.separator == "," else {"layout": {"separator": start.separator}}
    label = {key: value for key, value in start.label.wire().items() if value not in (None, [], ())}
    features = [{key: value for key, value in one.wire().items() if value is not None} for one in start.features]
    known = {} if start.id_column is None else {"id": start.id_column}
    return {"label": label, **known, "features": features, **layout}
