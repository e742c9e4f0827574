"""The ways to an answer that are compared, each on the same people of one split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.real.shifts import Shift, table
from common.planning.plan import resolve
from common.scenario.scenario import Scenario, parse
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.constant import Constant
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.records import Records
from deploy.simulation import conduct

DELTA = 1e-6
GAP = 0.01
"""Heats go on until the answer is shown to be so near the best candidate."""


@dataclass(frozen=True, repr=False, eq=False)
class Split:
    """The people of one split: the curator's, the agents, and others of T by whom answers are judged."""

    shift: Shift
    volunteers: Records
    agents: Records
    judges: Records
    seed: int


def scenario(split: Split, epsilon: float, protocol: str, **changes: Any) -> Scenario:
    """Return the scenario of a protocol on a split's people, epsilon the same on both sides."""
    people = {name: value for name, value in table(split.shift).wire().items() if value is not None}
    learner = {"name": "sgd", "loss": "logistic", "steps": 300_000, "clip": 1.0, "noise": "plan", "diameter": 32.0}
    curator = {"n": len(split.volunteers), "epsilon": epsilon, "delta": DELTA, "learner": learner}
    return parse(
        {
            "name": split.shift.name,
            "title": split.shift.words,
            "protocol": protocol,
            "alpha": GAP,
            "mode": "agnostic",
            "people": "simulated",  # public data: nobody's budget is spent
            "divergence": {"chi_squared": 3.0},
            "source": {"table": people},
            "target": {"table": people},
            "agents": {"count": len(split.agents), "mechanism": {"name": "warner", "epsilon": epsilon}},
            **{name: value for name, value in changes.items() if name != "curator"},
            "curator": curator | changes.get("curator", {}),
        }
    )


def _run(split: Split, epsilon: float, protocol: str, volunteers: Records | None = None, **changes: Any) -> Hypothesis:
    asked = scenario(split, epsilon, protocol, **changes)
    held = (split.volunteers if volunteers is None else volunteers, split.agents)
    return conduct(resolve(asked), split.seed, lambda round_, hypothesis: None, held=held).hypothesis


def _constant(split: Split, epsilon: float) -> Hypothesis:
    return Constant(label=1 if np.mean(split.judges.labels > 0) > 0.5 else -1)


def _agents_alone(split: Split, epsilon: float) -> Hypothesis:
    """Learn in the local model; the curator stands by with a sample too small to matter, and is never asked."""
    learner = {"name": "sgd", "loss": "logistic", "steps": 1, "noise": 1e5, "diameter": 1.0}
    idle = {"n": 16, "epsilon": 1e-3, "delta": 1e-9, "kappa": None, "eta": 1.0, "rounds": 1, "learner": learner}
    few = split.volunteers.take(np.arange(16))
    return _run(split, epsilon, "local-averages", few, curator=idle)


def _private_optimum(split: Split, epsilon: float) -> Hypothesis | None:
    """Learn from as many people of T as there are volunteers, with the same learner and budget."""
    if len(split.agents) < len(split.volunteers):
        return None
    others = split.agents.take(np.arange(len(split.volunteers)))
    return _run(split, epsilon, "learn-and-test", others)


def _optimum(split: Split, epsilon: float) -> Hypothesis:
    model = LogisticRegression(C=1e4, max_iter=2000).fit(split.agents.features, split.agents.labels)
    return Linear(weights=tuple(model.coef_[0].tolist()), threshold=-float(model.intercept_[0]))


Method = Callable[[Split, float], Hypothesis | None]

METHODS: dict[str, Method] = {
    "constant": _constant,
    "curator-alone": partial(_run, protocol="learn-and-test"),
    "agents-alone": _agents_alone,
    "str": partial(_run, protocol="subsample-test-reweigh", curator={"rounds": 4, "kappa": 0.25, "eta": 0.5}),
    "portfolio": partial(_run, protocol="portfolio"),
    "portfolio-raking": partial(_run, protocol="portfolio", portfolio={"raking": True}),
    "private-optimum": _private_optimum,
    "optimum": _optimum,
}
"""By name. ``optimum`` is without privacy; ``private-optimum`` has the curator's budget, on people of T."""
