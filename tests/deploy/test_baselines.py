"""Baselines: each side alone, on people of its own, with as many agents as the run asked."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from common.local.records import Records
from common.scenario.loading import load
from deploy import baselines
from deploy.baselines import Attempts, run_baselines
from tests.support import tiny
from tests.tiers import thinned


def ignore(text, numbers):
    """Nobody watches."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loss"), thinned([pytest.param("agents-once", 0.1), pytest.param("agents-only", 0.31)], 1)
)
def test_agents_alone_get_as_many_agents_as_the_hybrid_run_asked(name, loss, tmp_path):
    rates = "[{features: [17], source: 0.95, target: 0.6}]"
    few = [f"{side}.distribution.{what}" for side in ("source", "target") for what in ("d=20", f"rates={rates}")]
    chosen = load("sparse", [f"baselines=[{name}]", "agents.mechanism={name: none}", *few])
    found = run_baselines(chosen, {"agents": {"asked": 60_000}}, 1, tmp_path, Attempts(ignore), ignore)
    assert list(found) == [name]
    assert "60,000 agents (no privacy)" in found[name]["note"]
    # The constant answer misses 30%, and thirty steps of descent do not come far from it.
    assert found[name]["loss_on_target"] < loss


@pytest.mark.slow
def test_a_run_that_asked_nobody_has_its_baselines_all_the_same(tmp_path):
    chosen = tiny("baselines=[agents-once]")
    found = run_baselines(chosen, {"agents": {"asked": 0}}, 1, tmp_path, Attempts(ignore), ignore)
    assert 0.3 < found["agents-once"]["loss_on_target"] < 0.7


def test_the_optimum_is_that_of_the_hypotheses_in_question(tmp_path):
    # No half-space is better than a coin for a parity of many features.
    chosen = load("parity", ["baselines=[optimum]"])
    found = run_baselines(chosen, {}, 1, tmp_path, Attempts(ignore), ignore)
    assert found["optimum"]["loss_on_target"] == 0.0


def test_a_baseline_without_an_answer_is_left_out_and_told_of(tmp_path):
    told: list[str] = []
    attempts = Attempts(lambda text, numbers: told.append(text))
    chosen = load(
        "ball-nonprivate", ["baselines=[agents-once]", "source.distribution.norm=null", "target.distribution.norm=null"]
    )
    found = run_baselines(chosen, {"agents": {"asked": 1000}}, 1, tmp_path, attempts, ignore)
    assert found == {}
    assert attempts.left_out["agents-once"].startswith("local averages need records of bounded norm")
    assert not any(tmp_path.iterdir())  # what a baseline worked with is gone
    assert "agents-once is left out: local averages need records of bounded norm" in told[-1]


def test_the_optimum_is_what_scikit_learn_fits():
    draws = np.random.default_rng(3)
    features = draws.normal(size=(4000, 3)).astype(np.float32)
    chances = 1.0 / (1.0 + np.exp(-(features @ np.array([2.0, -1.0, 0.0]) + 0.5)))
    records = Records(features, np.where(draws.random(4000) < chances, 1, -1).astype(np.int8))
    theirs = LogisticRegression(C=1e4).fit(features, records.labels)
    ours = baselines.half_space(records)
    assert np.allclose(ours.weights, theirs.coef_[0], atol=0.01)
    assert ours.threshold == pytest.approx(-theirs.intercept_[0], abs=0.01)
    # Each is predicted by a fit that has not seen it, so the loss is no better than that of a fit that has seen all.
    seen = float(ours.mistakes(records).mean())
    assert seen - 0.002 <= baselines.cross_validated(records) <= seen + 0.01


def test_a_fit_is_judged_on_those_it_has_not_seen():
    features = np.eye(60, dtype=np.float32)  # whoever is seen is known by heart, and says nothing of others
    labels = np.where(np.random.default_rng(1).random(60) < 0.5, 1, -1).astype(np.int8)
    records = Records(features, labels)
    assert float(baselines.half_space(records).mistakes(records).mean()) == 0.0
    assert baselines.cross_validated(records) > 0.3
