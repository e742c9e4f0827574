"""Pairs of hypotheses in the place of weights: the potential argument, what is asked, how runs end, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.errors import BadMessage, BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.hypotheses.rules import Constant
from common.local.losses import PARTS, PairLoss
from common.local.queries.query import PairQuery
from common.local.records import Records
from common.operations.operation import Learn, Reweigh
from common.scenario.loading import load
from common.statistics import formulas
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from referee.protocols.discrepancy import PairsPlan
from tests.curator.given import law
from tests.referee.protocols.test_protocol_contract import World, play
from tests.support import small
from tests.tiers import for_each

NAME = "discrepancy"


@for_each("seed", range(3))
def test_no_more_rounds_reweigh_than_the_theorem_says_whatever_is_learned(seed):
    """On a sample with a kappa-dense u: the learner gives the worst h that is as good as the rival on mu."""
    random, n, kappa, learner, level = np.random.default_rng(seed), 300, 0.2, 0.02, 0.14
    x = np.sort(np.interp(random.uniform(size=n), [0.0, 0.4, 0.8, 1.0], [-1.0, -0.3, 0.4, 1.0]))
    labels = np.where(((x > -0.3) & (x < 0.4)) ^ (random.uniform(size=n) < 0.05), 1, -1).astype(np.int8)
    records = Records(x[:, None].astype(np.float32), labels)
    u = np.where(x > 0.4, 8.0, 1.0)
    u /= u.sum()
    assert u.max() <= 1.0 / (kappa * n)
    cuts = np.linspace(-0.9, 0.9, 19)
    planes = [Linear(weights=(sign,), threshold=sign * cut) for cut in cuts for sign in (1.0, -1.0)]
    mistakes = np.array([plane.mistakes(records) for plane in planes], dtype=float)
    rival = planes[int(np.argmin(mistakes @ u))]
    own = rival.mistakes(records).astype(float)
    gap = (level - learner) / 2.0
    most = formulas.rounds(float(u @ np.log(n * u)), gap)
    weights, sample, reweighs = Reweighing(n, kappa, 4.0 * gap), LocalSample.from_records(records), 0
    while True:
        mu = law(weights, sample)
        mu = mu / mu.sum()
        allowed = np.flatnonzero((mistakes - own) @ mu <= learner)
        chosen = allowed[np.argmax((mistakes[allowed] - own) @ u)]
        if (mistakes[chosen] - own) @ u < level:
            break
        weights.update(sample, PairLoss(planes[chosen], rival))
        reweighs += 1
        assert reweighs < most
    assert reweighs > 0


def test_the_gap_counts_half_of_a_difference_and_both_slacks():
    assert formulas.pair_gap(0.1, 0.25, 1.5, False) == pytest.approx((0.125 - 0.0375 - 0.3 / 7) / 2)
    assert formulas.pair_gap(0.1, 0.25, 2.5, True) == pytest.approx((0.225 - 0.0625 - 0.1) / 2)
    for alpha in (0.01, 0.5, 1.0):
        for error in (0.0, 0.5, 1.0):  # err_u(g) <= (err_T(g) + alpha/4)/(1 - c alpha)
            for c, over in ((1 / 8, 3 / 7), (3 / 8, 1.0)):
                assert (error + alpha / 4) / (1 - c * alpha) <= error + over * alpha + 1e-12


def test_a_pair_counts_where_only_one_errs_alike_for_agents_and_weights():
    records = Records(np.array([[1], [1], [-1], [-1]], np.float32), np.array([1, -1, 1, -1], np.int8))
    plane, rival = Linear(weights=(1.0,), threshold=0.0), Constant(label=1)
    wanted = [0.5, 0.5, 1.0, 0.0]
    assert PairQuery(hypothesis=plane, rival=rival).evaluate(records, np.arange(4)).tolist() == wanted
    weighing = Reweigh(hypothesis=plane, rival=rival).reweighs_by
    assert (weighing.count(records) / PARTS).tolist() == wanted
    assert weighing.grain == PARTS
    with pytest.raises(BadMessage, match="weighed by mistakes"):
        Reweigh.parse({"kind": "reweigh", "hypothesis": plane.wire(), "rival": rival.wire(), "loss": "hinge"})


def test_where_no_rival_is_better_the_run_is_done_and_nothing_is_reweighed():
    chosen = small(NAME)
    outcome = play(NAME, chosen, world := World(chosen, 0.5))  # (1 + difference)/2
    assert (outcome.status, outcome.iterations) == ("done", 1)
    assert [type(operation) for operation in world.operations()] == [Learn]
    pairs = [step.query for step in world.questions() if isinstance(step.query, PairQuery)]
    assert {pair.rival.kind for pair in pairs} == {"linear", "constant"}
    assert len(outcome.pairs) == 3
    high = 2.0 * PairsPlan.of(chosen).levels.high - 1.0
    assert all(pair.low <= 0.0 <= pair.high for pair in outcome.pairs)
    assert f"better by less than {high:g}" in outcome.reason


def test_where_a_rival_is_better_its_pair_is_reweighed_by_and_at_the_end_the_rival_is_the_answer():
    chosen = small(NAME)
    outcome = play(NAME, chosen, world := World(chosen, 1.0))
    assert (outcome.status, outcome.iterations) == ("exhausted", chosen.curator.rounds)
    reweighs = [operation for operation in world.operations() if isinstance(operation, Reweigh)]
    assert len(reweighs) == chosen.curator.rounds - 1
    assert {reweigh.rival for reweigh in reweighs} == {outcome.answer}
    assert "rival was better, and is the answer" in outcome.reason
    assert outcome.pairs == ()


@for_each(
    ("changes", "words"),
    [
        (["accuracy.best=0.1"], "leave out accuracy.best"),
        (["accuracy.halt_below=20"], "must be below 1"),
        (["agents.count=4"], "too few to learn alone"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(BadScenario, match=words):
        play(NAME, small(NAME, *changes), World(small(NAME), 0.5))


def test_the_shipped_scenario_has_a_gap():
    scenario = load("discrepancy")
    truncated = scenario.divergence.supremum is None
    accuracy = scenario.accuracy
    assert formulas.pair_gap(scenario.alpha, accuracy.learner, accuracy.reweigh_above, truncated) > 0.0
