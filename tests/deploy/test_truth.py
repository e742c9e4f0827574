"""The truth is an experiment's: an operator without the people's records gets none, and needs none."""

import pytest

from common import scenario
from common.hypotheses.linear import Linear
from deploy.experiment import complete
from deploy.truth import can_judge, judge_crowd, loss
from tests.support import tiny

RESULT = {"answer": {"kind": "linear", "weights": [0.0] * 8, "threshold": 1.0}, "iterations": 1}


def ignore(text, numbers):
    """Nobody watches."""


def test_the_constant_answer_has_the_loss_that_its_distribution_says():
    chosen = tiny()
    assert can_judge(chosen)
    always_inside = Linear(weights=(0.0,) * 8, threshold=1.0)
    # 60% of T lie outside the ball; 2^21 people: five standard errors are 0.0017.
    assert loss(always_inside, judge_crowd(chosen, 1)) == pytest.approx(0.6, abs=0.0017)


def test_an_operator_without_the_table_gets_no_truth_and_no_baselines(tmp_path, monkeypatch):
    monkeypatch.delenv("TANDEM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    asked = scenario.load("adult")
    assert not can_judge(asked)
    completed = complete(RESULT, asked, None, tmp_path, ignore)
    assert completed["truth"] is None


def test_simulated_people_are_judged_without_baselines_if_none_are_named(tmp_path):
    asked = tiny("baselines=[]")
    truth = complete(RESULT, asked, 1, tmp_path, ignore)["truth"]
    assert truth == {"loss_on_target": pytest.approx(0.6, abs=0.0017), "people": 1 << 21}
