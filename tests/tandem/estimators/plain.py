"""A deployment that learns without privacy, parties and messages: for tests that look at an estimator's interface."""

from pathlib import Path

import numpy as np

from common.core.errors import BadData
from common.data.population import open_records
from common.lifetime.charging import USERS_OWN, Charging
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear, Regressor
from common.local.records import Records
from common.scenario.resolved import ResolvedScenario
from common.statistics.intervals import Estimate
from deploy.deployment import OnProgress, RunOutput

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
