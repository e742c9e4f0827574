"""The benchmark of hand-over: what it counts, and that one run is promised for less than two."""

import pytest

from benchmarks.hand_over import SECOND, promised, second_task
from common.planning.plan import resolve
from common.scenario.loading import load
from tests.support import TINY

SMALL = [*TINY, "accuracy.halt_below=5.9", "accuracy.reweigh_above=5.5", "agents.mechanism.epsilon=6"]


@pytest.mark.slow
def test_it_counts_the_last_task():
    both, alone = (second_task(load("hand-over", [*SMALL, *more]), 1) for more in ([], [SECOND]))
    assert both["done"] == alone["done"] == 1.0
    assert both["all_calls"] > both["calls"] >= 1.0
    assert alone["all_calls"] == alone["calls"]
    assert both["agents"] > 0.0
    assert 0.0 <= both["loss"] < 0.5


def test_two_runs_are_promised_for_more_people_than_one():
    scenario = resolve(load("hand-over", ["curator.rounds=40", "curator.n=100000", "curator.learner.steps=20000"]))
    one, two = promised(scenario, 40, 1), promised(scenario, 39, 2)
    assert (one["calls"], two["calls"]) == (40.0, 78.0)
    assert one["epsilon"] < two["epsilon"]
    assert one["least_n"] < two["least_n"]
