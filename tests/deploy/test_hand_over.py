"""A hand-over as users run it: both tasks in the result, each with its truth."""

import numpy as np
import pytest

from common.data.population import TableRecordSource
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.relabelled import Relabelled
from common.local.records import Records
from common.scenario.loading import load
from common.scenario.resolved import settled
from deploy.embedded import Embedded
from deploy.experiment import complete
from deploy.truth import judge
from tests.support import TINY


def ignore(text, numbers):
    """Nobody watches."""


@pytest.mark.slow
def test_each_task_is_judged_by_its_own_label(tmp_path):
    asked = settled(load("hand-over", [*TINY, "accuracy.halt_below=5.9", "accuracy.reweigh_above=5.5"]))
    finished = Embedded(tmp_path).run(asked, 1, "run", ignore)
    result = complete(finished.result, asked, 1, tmp_path, ignore)
    assert len(result["tasks"]) == len(result["truth"]["tasks"]) == 2
    assert result["truth"]["loss_on_target"] == result["truth"]["tasks"][-1]
    assert all(0.0 <= value < 0.5 for value in result["truth"]["tasks"])


def test_rare_labels_are_those_that_the_hypothesis_is_about():
    features = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]], dtype=np.float32)
    population = TableRecordSource(Records(features, np.ones(4, dtype=np.int8)))
    found = judge(Relabelled(column=1, hypothesis=Linear(weights=(1.0,), threshold=0.5)), population)
    assert found.loss == 0.25
    assert found.on_negative == 0.0
    assert found.on_positive == pytest.approx(1 / 3)
