"""The methods that are compared, each on the same people of one split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.real import balance
from benchmarks.real.shifts import Shift, table
from common.core.arrays import Floats
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.numerics.randomness import subseed
from common.scenario.fitting import usual_learner
from common.scenario.scenario import ResolvedScenario, Scenario, parse
from deploy.simulation import conduct

DELTA = 1e-6
GAP = 0.01
"""Heats continue until the answer is shown to be within this of the best candidate."""
_FEW = 16
"""Number of the curator's people if it is never asked."""


@dataclass(frozen=True, repr=False, eq=False)
class Split:
    """The people of one split: the curator's, the agents, and others of T on whom answers are evaluated."""

    shift: Shift
    volunteers: Records
    agents: Records
    judges: Records
    seed: int


class Answer(NamedTuple):
    """The answer of a method.

    Attributes:
        hypothesis: Predicts the label of a person.
        gap: By how much its loss may exceed that of the best candidate, if the method states that.
        chosen: The candidate's name, if there were several.
    """

    hypothesis: Hypothesis
    gap: float | None = None
    chosen: str | None = None


class Method(ABC):
    """A method.

    Attributes:
        words: A description for readers: what it does, and what it sees.
    """

    words: str

    @property
    @abstractmethod
    def private(self) -> bool:
        """Whether the answer depends on epsilon."""

    @abstractmethod
    def scenario(self, shift: Shift, n: int, agents: int, epsilon: float) -> Scenario | None:
        """Return the scenario for the services, with the same epsilon on both sides; None if it is no protocol.

        Args:
            n, agents: The numbers of the curator's people and of agents.
        """

    @abstractmethod
    def answer(self, split: Split, plan: ResolvedScenario | None) -> Answer:
        """Return the answer on a split's people; ``plan`` is the resolved scenario, the same for all splits."""


def _volunteers(split: Split) -> Records:
    return split.volunteers


def _few(split: Split) -> Records:
    return split.volunteers.take(np.arange(_FEW))


def _of_target(split: Split) -> Records:
    """Return as many of the agents as there are volunteers, drawn with replacement if there are fewer agents."""
    n, there = len(split.volunteers), len(split.agents)
    if n <= there:
        return split.agents.take(np.arange(n))
    return split.agents.take(np.random.default_rng(subseed(split.seed, "drawn again")).integers(there, size=n))


@dataclass(frozen=True)
class Served(Method):
    """A protocol, run by the parties' own code on the split's people.

    Attributes:
        changes: Changes to the scenario; those in ``curator`` are merged into the curator's section.
        curator: Which people are the curator's.
    """

    words: str
    protocol: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    curator: Callable[[Split], Records] = _volunteers

    @property
    def private(self) -> bool:
        """Whether the answer depends on epsilon: it does."""
        return True

    def scenario(self, shift: Shift, n: int, agents: int, epsilon: float) -> Scenario:
        """Return the scenario of the protocol."""
        people = {name: value for name, value in table(shift).wire().items() if value is not None}
        curator = {
            "n": n,
            "epsilon": epsilon,
            "delta": DELTA,
            "learner": usual_learner(agents),
        }
        return parse(
            {
                "name": shift.name,
                "title": shift.words,
                "protocol": self.protocol,
                "alpha": GAP,
                "mode": "agnostic",
                "people": "simulated",  # public data: no person's budget is spent
                "divergence": {"chi_squared": 3.0},
                "source": {"table": people},
                "target": {"table": people},
                "agents": {"count": agents, "mechanism": {"name": "warner", "epsilon": epsilon}},
                **{name: value for name, value in self.changes.items() if name != "curator"},
                "curator": curator | self.changes.get("curator", {}),
            }
        )

    def answer(self, split: Split, plan: ResolvedScenario | None) -> Answer:
        """Run the protocol; splits differ by people and by seed."""
        assert plan is not None
        held = (self.curator(split), split.agents)
        outcome = conduct(plan, split.seed, lambda round_, hypothesis: None, records=held)
        names = [judged.name for judged in outcome.judged or () if judged.hypothesis == outcome.hypothesis]
        return Answer(outcome.hypothesis, outcome.gap, names[0] if names else None)


@dataclass(frozen=True)
class Clear(Method):
    """An answer without privacy: ``fit`` sees the split's people."""

    words: str
    fit: Callable[[Split], Hypothesis]

    @property
    def private(self) -> bool:
        """Whether the answer depends on epsilon: it does not."""
        return False

    def scenario(self, shift: Shift, n: int, agents: int, epsilon: float) -> None:
        """Return None."""
        return

    def answer(self, split: Split, plan: ResolvedScenario | None) -> Answer:
        """Fit."""
        return Answer(self.fit(split))


def _constant(split: Split) -> Hypothesis:
    return Constant(label=1 if np.mean(split.judges.labels > 0) > 0.5 else -1)


def logistic(people: Records, weights: Floats | None = None) -> Linear:
    """Return the half-space of a logistic regression with nearly no penalty; weights of shape (people,).

    A feature that all of them share has weight 0, since its effect cannot be estimated.
    """
    kept = balance.varying(people.features)
    model = LogisticRegression(C=1e4, max_iter=2000).fit(people.features[:, kept], people.labels, weights)
    weights = np.zeros(people.dimension)
    weights[kept] = model.coef_[0]
    return Linear(weights=tuple(weights.tolist()), threshold=-float(model.intercept_[0]))


def _raked(split: Split) -> Hypothesis:
    return logistic(split.volunteers, balance.raked(split.volunteers, balance.Margins.of(split.agents)))


def _propensity(split: Split) -> Hypothesis:
    return logistic(split.volunteers, balance.odds(split.volunteers.features, split.agents.features))


_IDLE: dict[str, Any] = {
    "n": _FEW,
    "epsilon": 1e-3,
    "delta": 1e-9,
    "kappa": None,
    "eta": 1.0,
    "rounds": 1,
    "learner": {"name": "sgd", "loss": "logistic", "steps": 1, "noise": 1e5, "diameter": 1.0},
}
"""A curator with a tiny sample that is never asked."""

STEPS: dict[str, Any] = {
    "name": "sgd",
    "loss": "logistic",
    "steps": 300_000,
    "clip": 1.0,
    "noise": "plan",
    "diameter": 32.0,
}
"""The learner for a reweighed sample; the other learner uses the unweighted sample."""

_ONE_MODEL: dict[str, Any] = {"curator": {"kappa": 0.5}}
"""A model of unchanged weights costs the same with any kappa; the plan's kappa is not possible for small samples."""

METHODS: dict[str, Method] = {
    "constant": Clear("the more frequent label of T for everybody", _constant),
    "curator-alone": Served("the curator's private model of the volunteers", "learn-and-test", _ONE_MODEL),
    "agents-alone": Served("a model learned from the agents' answers only", "local-averages", {"curator": _IDLE}, _few),
    "str": Served(
        "Subsample-Test-Reweigh, four rounds",
        "subsample-test-reweigh",
        {"curator": {"rounds": 4, "kappa": 0.25, "eta": 0.5, "learner": STEPS}},
    ),
    "portfolio": Served("a model that agents teach, judged beside what either side has alone", "portfolio"),
    "private-optimum": Served(
        "the curator's learner and budget, on as many people of T", "learn-and-test", _ONE_MODEL, _of_target
    ),
    "balance": Clear("without privacy: volunteers raked to T's margins (entropy balancing)", _raked),
    "balance-propensity": Clear("without privacy: volunteers weighed by their inverse propensity", _propensity),
    "optimum": Clear("without privacy: a model of the agents' records", lambda split: logistic(split.agents)),
}
"""The methods by name, in the order of the tables."""

SERVICES = ("portfolio",)
"""The hybrid answers: those that must not be worse than one side alone."""
ALONE = ("constant", "curator-alone", "agents-alone")
"""The alternatives without a hybrid."""
