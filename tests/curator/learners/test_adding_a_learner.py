"""A learner with a plan is three files: common, curator, a test. One is added here to a copy of the tree."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.plugins.test_added_to_the_tree import copied, put, run, suites, tree

__all__ = ["copied", "tree"]

pytestmark = pytest.mark.slow

FILES = {
    "common/learners/average.py": '''
        """The noisy average of labelled features as a half-space: settings, the event of a call, and its plan."""

        from __future__ import annotations

        from typing import Annotated, ClassVar, Literal

        from pydantic import Field

        from common.core.values import PLAN, FromPlan
        from common.learners.base import SETTINGS, LearnerSettings, OpenSettings, PlanRequest, PlanTask
        from common.local.hypotheses.hypothesis import Hypothesis
        from common.local.hypotheses.hypothesis import Linear
        from common.privacy.events import Event, Gaussian
        from common.privacy.rounding import down
        from common.privacy.theorems.gaussian_dp import mu_allowed
        from common.statistics.formulas import PlannedValue, fixed

        Mu = Annotated[float, Field(gt=0, le=100)]


        class OpenAverage(OpenSettings):
            """Settings: ``mu`` of the one release, and ``norm``, public, to which (x, 1) is clipped."""

            reweighs: ClassVar[bool] = False

            name: Literal["average"] = "average"
            mu: Mu | FromPlan
            norm: float = Field(gt=0, le=1e6)

            def planned_sample(self, request: PlanRequest) -> PlannedValue:
                """Any: nothing is claimed of its accuracy."""
                return fixed(1, "any", "Dwork et al. 2006")

            def complete(self, task: PlanTask, n: int | None) -> AverageSettings:
                """Fill in ``mu``: equal shares of the budget."""
                if self.mu != PLAN:
                    return self.settled(AverageSettings)
                whole = mu_allowed(*task.delta_budget("the average"))
                return self.settled(AverageSettings, mu=down(whole / task.rounds**0.5, 8.0))


        @SETTINGS.register("average")
        class AverageSettings(OpenAverage, LearnerSettings):
            """Settled settings."""

            mu: Mu

            def can_give(self, hypothesis: Hypothesis) -> bool:
                """Tell whether it is a half-space."""
                return isinstance(hypothesis, Linear)

            def event(self, tv_bound: float) -> Event:
                """One mu-GDP release from the sample itself."""
                return Gaussian(mu=self.mu)

            def planned_people(self, task: PlanTask) -> PlannedValue:
                """Any."""
                return task.any_people("any n is as private", "Dwork et al. 2006")

            def planned_values(self, task: PlanTask, asked: OpenSettings) -> dict[str, PlannedValue]:
                """Return mu."""
                return {"mu": fixed(self.mu, "mu*(eps, delta)/sqrt(T)", "Dong, Roth and Su 2022")}
        ''',
    "curator/learners/average.py": '''
        """The noisy average of labelled features as a half-space."""

        from __future__ import annotations

        from typing import Self

        import numpy as np

        from common.core.arrays import AnyArray
        from common.learners.average import AverageSettings
        from common.local.hypotheses.hypothesis import Hypothesis
        from common.local.hypotheses.hypothesis import Linear
        from common.local.records import Records
        from curator.learners.base import LEARNERS, Learner
        from curator.mechanisms.sums import ClippedSum
        from curator.mechanisms.access import Access


        @LEARNERS.register("average")
        class Average(AverageSettings, Learner):
            """Predict by the side on which the average of y (x, 1) has a point (Duda and Hart 1973, 5.8)."""

            @classmethod
            def example(cls) -> tuple[Self, ...]:
                """Return one that learns from features up to a norm of 2."""
                return (cls(mu=2.0, norm=2.0),)

            def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
                """Release one sum."""

                def signed(records: Records) -> AnyArray:
                    ones = np.ones((len(records), 1))
                    return np.column_stack([records.features, ones]) * records.labels[:, None]

                total = access.release(ClippedSum(self.norm, access.dimension + 1, self.mu), signed)
                scaled = total / max(float(np.abs(total).max()), 1e-9)
                return Linear(weights=tuple(scaled[:-1].tolist()), threshold=-LEVEL * float(scaled[-1]))


        LEVEL = 0.5
        """Of uniform features on [-1, 1] the average's threshold is twice as far from 0 as the best one."""
        ''',
    "tests/curator/learners/test_average.py": '''
        """The noisy average: what its plan spends, and what a run of it finds."""

        from common.learners.base import Calls
        from common.scenario.plan import plan, resolve
        from common.scenario.loading import load
        from deploy.simulation import conduct

        ASKED = load(
            "ball",
            [
                "protocol=learn-and-test",
                "curator.learner={name: average, mu: plan, norm: 2.0}",
                "curator.n=20000",
                "curator.kappa=null",
                "curator.epsilon=1.0",
                "curator.delta=1.0e-6",
            ],
        )


        def test_average_spends_the_budget_and_no_more():
            found, settled = plan(ASKED), resolve(ASKED)
            assert 0.2 < found.settings["mu"].value == found.learner["mu"] < 0.3
            curator = settled.curator
            assert 0.99 < Calls(curator.n, None, curator.eta, curator.rounds).spent(curator.settings, 1e-6) <= 1.0


        def test_average_runs():
            learned = []
            conduct(resolve(ASKED), 1, lambda number, hypothesis: learned.append(hypothesis))
            assert [hypothesis.kind for hypothesis in learned] == ["linear"]
        ''',
}
CONTRACT = "tests/curator/learners/test_learner_contract.py"
COVERAGE = "tests/audit/test_audit_parties.py"
SUITES = [
    "tests/curator/learners/test_average.py",
    "tests/curator/learners/test_cheating_learners.py",
    f"{CONTRACT}::TestContract",
    f"{CONTRACT}::test_draws_as_often_as_its_event_pays_for",
    f"{CONTRACT}::test_no_call_takes_more_than_it_says[average-40000]",
    f"{COVERAGE}::test_every_operation_and_every_way_to_use_people_is_audited",
    f"{COVERAGE}::test_a_learner_uses_people_in_audited_ways_alone",
]


def test_a_learner_with_a_plan_is_one_file_on_either_side_and_a_test(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        put(tree / name, dedent(text).lstrip())
    assert re.search(r"\baverage\b", run(tree, "-m", "referee.cli", "list", "learners"))
    monkeypatch.setenv("TANDEM_ONLY", "average")
    suites(tree, *SUITES)
