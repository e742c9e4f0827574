"""People for the estimators' tests, and a deployment that learns from them without privacy, parties and messages."""

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from common.core.errors import BadData, BadFit
from common.data.population import open_records
from common.lifetime.charging import USERS_OWN, Charging
from common.local.hypotheses.hypothesis import Hypothesis, Linear, Regressor
from common.local.records import Records
from common.scenario.scenario import ResolvedScenario
from common.statistics.intervals import Estimate
from deploy.deployment import OnProgress, RunOutput

SCHEMA = {
    "features": [
        {"kind": "number", "column": "visits", "low": 0, "high": 30},
        {"kind": "number", "column": "months", "low": 0, "high": 60},
        {"kind": "category", "column": "plan", "values": ["basic", "pro"]},
    ],
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
}
QUICK = {"name": "sgd", "steps": 3000}
"""A learner for tests that look at something else than the model."""


def made(kind: Any, **given: Any) -> Any:
    """Return an estimator, of parameters, options and settings of its learner, each by its name."""
    parameters = {name: given.pop(name) for name in [*given] if name in kind._get_param_names()}
    options = {name: given.pop(name) for name in [*given] if name in kind._known_options}
    return kind(**parameters, **({"options": options} if options else {}), **({"settings": given} if given else {}))


def check_refused(model: Any, says: str, *people: Any, **others: Any) -> None:
    """Check that a fit is refused before its run begins, and nothing is spent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tandem.estimators.base.run", lambda *arguments: pytest.fail("the run began"))
        with pytest.raises(BadFit, match=says):
            model.fit(*people, **others)
    assert not hasattr(model, "guarantee_")


def square(count: int, seed: int, *, rare: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return points in the unit square's double, and whether they lie outside a triangle.

    Points on the right half are taken with chance ``rare`` only.
    """
    generator = np.random.default_rng(seed)
    points = generator.uniform(-1, 1, (20 * count, 2))
    points = points[generator.uniform(size=len(points)) < np.where(points[:, 0] > 0, rare, 1.0)][:count]
    return points, np.where(points[:, 0] + points[:, 1] > 0.2, 1, 0)


def customers(count: int, seed: int) -> polars.DataFrame:
    """Return a table with numbers, categories, a missing field here and there, and a label."""
    generator = np.random.default_rng(seed)
    visits, months = generator.uniform(0, 40, count).round(2), generator.uniform(-5, 70, count).round(1)
    plan = generator.choice(["basic", "pro", "family", ""], count)
    score = visits / 15 + months / 60 + 0.5 * (plan == "pro")
    return polars.DataFrame(
        {
            "visits": [None if missing else value for missing, value in zip(plan == "", visits, strict=True)],
            "months": months,
            "plan": [None if value == "" else str(value) for value in plan],
            "renews": np.where(score > 1.6, "yes", "no"),
        }
    )


RIDGE = 1e-6


class Plain:
    """Reads the same files as the parties of :class:`deploy.deployment.Embedded`, and fits least squares to them.

    Args:
        state: Stays empty: nothing is kept.
        charging: Not used: nobody is charged.
    """

    def __init__(self, state: Path, charging: Charging = USERS_OWN) -> None:
        self._state = state

    def check(self, scenario: ResolvedScenario) -> None:
        """Refuse nothing."""

    def run(self, scenario: ResolvedScenario, seed: int | None, run: str, on_progress: OnProgress) -> RunOutput:
        """Learn from the curator's people and test on the others, as the scenario's hypothesis and loss say."""
        assert scenario.data is not None
        source, target = (
            open_records(people, Path(scenario.data), 0, int(count))
            for people, count in ((scenario.source, scenario.curator.n), (scenario.target, scenario.agents.count))
        )
        everybody = [side.records(np.arange(len(side))) for side in (source, target)]
        hypothesis = fitted(everybody[0], regression=scenario.agents.loss == "squared")
        mistaken = float(np.mean(hypothesis.predict(everybody[1].features) != everybody[1].labels))
        result = {
            "status": "done",
            "reason": "everybody was asked",
            "answer": hypothesis.wire(),
            "estimate": Estimate(value=mistaken, low=0.0, high=1.0, confidence=0.95).wire(),
        }
        return RunOutput(result, "", b"", ())


def fitted(people: Records, *, regression: bool) -> Hypothesis:
    """Return the least squares of the label; of the last feature, which must lie in [0, 1], in a regression."""
    features = people.features.astype(np.float64)
    wanted = people.labels.astype(np.float64)
    if regression:
        features, wanted = features[:, :-1], features[:, -1]
    if not features.shape[1]:
        raise BadData("there is no feature to learn from")
    middle, level = features.mean(axis=0), float(wanted.mean())
    centred = features - middle
    gram = centred.T @ centred + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (wanted - level))
    shift = level - float(middle @ weights)
    if regression:
        return Regressor(weights=tuple(weights.tolist()), intercept=shift, response=features.shape[1])
    return Linear(weights=tuple(weights.tolist()), threshold=-shift)
