"""The truth is an experiment's: an operator without the people's records gets none, and needs none."""

import numpy as np
import pytest

from common.data.population import TableRecordSource, open_records
from common.local.hypotheses.linear import Linear
from common.local.hypotheses.rules import Constant
from common.local.records import Records
from common.scenario import loading
from deploy.experiment import complete
from deploy.truth import Judgement, can_judge, evaluation_source, judge, loss, squared_error
from tests.support import tiny

RESULT = {"answer": {"kind": "linear", "weights": [0.0] * 8, "threshold": 1.0}, "iterations": 1}


def ignore(text, numbers):
    """Nobody watches."""


def test_the_constant_answer_has_the_loss_that_its_distribution_says():
    chosen = tiny()
    assert can_judge(chosen)
    always_inside = Linear(weights=(0.0,) * 8, threshold=1.0)
    # 60% of T lie outside the ball; 2^21 people: five standard errors are 0.0017.
    assert loss(always_inside, evaluation_source(chosen, 1)) == pytest.approx(0.6, abs=0.0017)


def test_an_operator_without_the_table_gets_no_truth_and_no_baselines(tmp_path, monkeypatch):
    monkeypatch.delenv("TANDEM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    asked = loading.load("adult")
    assert not can_judge(asked)
    completed = complete(RESULT, asked, None, tmp_path, ignore)
    assert completed["truth"] is None


def test_simulated_people_are_judged_without_baselines_if_none_are_named(tmp_path):
    asked = tiny("baselines=[]")
    truth = complete(RESULT, asked, 1, tmp_path, ignore)["truth"]
    # The constant -1: right about those inside, wrong about all others.
    assert truth == {
        "loss_on_target": pytest.approx(0.6, abs=0.0017),
        "loss_on_negative": 0.0,
        "loss_on_positive": 1.0,
        "people": 1 << 21,
    }


def test_a_hypothesis_is_judged_on_each_label():
    chosen = loading.load("halfspace")
    population = open_records(chosen.target, None, 3, 40_000)
    lost = {label: judge(Constant(label=label), population) for label in (1, -1)}
    # The constant +1 has half the loss that Appendix C halts at, and is wrong about everybody in the rare class.
    assert (lost[1].on_negative, lost[1].on_positive) == (1.0, 0.0)
    assert (lost[-1].on_negative, lost[-1].on_positive) == (0.0, 1.0)
    assert lost[1].loss == pytest.approx(0.01, abs=0.003) == 1.0 - lost[-1].loss


def test_nobody_with_a_label_is_no_loss_of_zero():
    everybody = TableRecordSource(Records(np.zeros((3, 1), dtype=np.float32), np.ones(3, dtype=np.int8)))
    assert judge(Constant(label=1), everybody) == Judgement(0.0, None, 0.0)


def test_a_wrong_label_is_a_squared_error_of_one_and_half_of_them_are_a_half():
    labels = np.array([1, -1, 1, -1], dtype=np.int8)
    four = TableRecordSource(Records(np.zeros((4, 1), dtype=np.float32), labels))
    assert squared_error(Constant(label=1), four) == loss(Constant(label=1), four) == 0.5
    between = Linear(weights=(1.0,), threshold=-0.5)  # it predicts the value 0.75 for everybody
    assert squared_error(between, four) == (2 * 0.25**2 + 2 * 0.75**2) / 4
    assert loss(between, four) == 0.5
