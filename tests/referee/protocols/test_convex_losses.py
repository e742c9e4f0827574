"""Algorithm 4 with a convex loss: rounds, alpha_H, the strongly convex R, what the messages say, whole runs."""

import math

import numpy as np
import pytest

from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import ROUNDING, HypothesisLoss, evaluate
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.scenario.accepting import violations
from common.scenario.loading import load
from common.scenario.plan import plan
from common.statistics import formulas
from curator.learners.base import learn_from
from curator.learners.half_spaces import Sgd
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from deploy.checking import checked
from tests.curator.given import law
from tests.referee.protocols.test_protocol_contract import STR, World, play
from tests.support import Bench, audited, tiny
from tests.tiers import for_each

BOUND = 2.0


def worst_mean(losses, kappa):
    """Return the greatest mean loss of a kappa-dense distribution: that of the worst kappa n people."""
    return float(np.sort(losses)[-round(kappa * len(losses)) :].mean())


@pytest.mark.slow
@for_each("loss", ["hinge", "logistic", "squared"])
@for_each("seed", range(3))
def test_rounds_are_bounded_with_alpha_h_and_a_convex_loss_whatever_the_learner_gives(seed, loss):
    """T of the plan, where the good distribution is T itself: against a learner as bad as its promise lets it be."""
    random, n, kappa, alpha = np.random.default_rng(seed), 400, 0.25, 0.08
    x = np.sort(random.uniform(-1, 1, n))
    labels = np.where(x + 0.3 * random.normal(size=n) > 0.2, 1, -1).astype(np.int8)
    records = Records(x[:, None].astype(np.float32), labels)
    bound = 1.0 if loss == "squared" else BOUND
    planes = [Linear(weights=(w,), threshold=b) for w in (-2.0, 0.0, 0.5, 1.0, 2.0, 4.0) for b in (-1, -0.5, 0, 0.5, 1)]
    losses = np.array([evaluate(loss, plane, records, bound) for plane in planes])
    best = min(worst_mean(row, kappa) for row in losses)  # alpha_H: on no dense mu the best of the class loses more
    target = np.where(x > 0.5, 8.0, 1.0)
    target /= target.sum()
    assert target.max() <= 1.0 / (kappa * n)
    gap = formulas.gap(alpha, 1.0, 2.0, True) + formulas.slack(alpha, True) - ROUNDING
    most = formulas.rounds(float(target @ np.log(n * target)), gap)
    weights, sample = Reweighing(n, kappa, 4.0 * gap), LocalSample.of(records)
    for _ in range(most):
        mu = law(weights, sample)
        allowed = np.flatnonzero(losses @ (mu / mu.sum()) <= best + alpha)
        chosen = allowed[np.argmax(losses[allowed] @ target)]
        if losses[chosen] @ target <= best + 2 * alpha:
            break
        weights.update(sample, HypothesisLoss(planes[chosen], loss, bound))
    else:
        pytest.fail(f"not done after {most} rounds")
    assert 1 <= weights.updates < most


@for_each(("more", "curved"), [({}, 0.2), ({"noise": 1.0}, 0.2), ({"noise": 0.5, "loss": "hinge"}, 0.3)])
def test_as_many_steps_as_a_strongly_convex_loss_takes_reach_the_accuracy(more, curved):
    settings = {"loss": "logistic", "noise": 0.0, "diameter": 2.0, "clip": 1.5, "intercept": 0.0, **more}
    random = np.random.default_rng(5)
    features = random.uniform(-1, 1, (200, 2)).astype(np.float32)
    records = Records(features, np.where(features[:, 0] > 0.1, 1, -1).astype(np.int8))
    sampler = Reweighing(200, 0.5, 0.1).sampler(records)
    alpha, beta = 0.25, 0.2
    steps = formulas.steps_strong(alpha, beta, 1, 1.5, settings["noise"], 2.0, 2, curved)

    def lost(count, seed):
        sgd = Sgd(steps=count, regularization=curved, **settings)
        found = learn_from(sgd, sampler, RandomSource.seeded(seed))
        return evaluate(settings["loss"], found, records, 1e3).mean() * 1e3

    angles = [(r * math.cos(a), r * math.sin(a)) for r in (0.9, 1.0) for a in np.linspace(0, 6.28, 200)]
    planes = [Linear(weights=angle, threshold=0.0) for angle in angles]
    best = min(evaluate(settings["loss"], plane, records, 1e3).mean() * 1e3 for plane in planes)
    assert max(lost(steps, seed) for seed in range(20)) <= best + alpha
    if settings["noise"]:
        assert max(lost(2, seed) for seed in range(20)) > best + alpha  # two steps do not
    left = alpha - curved * 4.0 / 8.0
    assert formulas.strong_excess(steps, beta / 3, 1.5, settings["noise"], 2.0, 2, curved) <= left
    assert formulas.strong_excess(steps - 1, beta / 3, 1.5, settings["noise"], 2.0, 2, curved) > left


def test_a_plan_prints_the_steps_and_the_n_of_a_strongly_convex_loss():
    convex, strong = (
        plan(load("ball", [*OPEN, f"curator.learner.regularization={bend}"]), "paper") for bend in (0, 0.1)
    )
    assert convex.settings["steps"].value > 10 * strong.settings["steps"].value
    assert strong.settings["steps"].value == formulas.paper_steps(0.04, 0.05, 1.0, 2.0, 6.0, 9, 0.1)
    assert convex.n.value > strong.n.value  # the second n of Theorem A.4
    assert "A = (L^2 + sigma^2 d)/(lambda alpha)" in strong.settings["steps"].formula
    tight = plan(load("ball", [*OPEN, "curator.learner.regularization=0.001"]), "tight")
    assert tight.settings["steps"].value == formulas.steps_strong(
        0.04, 0.05, int(tight.rounds.value), 1.0, 2.0, 6.0, 9, 0.001
    )
    with pytest.raises(BadScenario, match=r"regularization \* diameter\^2/8 must be below"):
        plan(load("ball", [*OPEN, "curator.learner.regularization=1"]), "tight")


OPEN = ["curator.learner.steps=plan", "curator.learner.noise=2", "curator.learner.diameter=6"]
HINGE = ("agents.loss=hinge", "agents.bound=4", "curator.learner.loss=hinge", "accuracy.best=0.1")


def test_agents_are_asked_for_the_loss_and_the_curator_reweighs_by_it():
    chosen = tiny(*HINGE)
    outcome = play(STR, chosen, world := World(chosen, 1.0))
    assert (outcome.status, outcome.iterations) == ("exhausted", 3)
    messages = [question.query for question in world.questions()] + world.operations()[1::2]
    assert len(messages) >= 5
    assert all((each.loss, each.bound) == ("hinge", 4.0) for each in messages)
    by_mistakes = tiny(*HINGE, "agents.reweigh=mistakes")
    play(STR, by_mistakes, world := World(by_mistakes, 1.0))
    assert {(each.loss, each.bound) for each in world.operations()[1::2]} == {("zero-one", 1.0)}
    assert {each.query.bound for each in world.questions()} == {4.0}


def test_levels_are_beyond_alpha_h_and_an_agnostic_run_with_it_halts_or_gives_the_best():
    chosen = tiny("mode=agnostic", "accuracy.best=0.1")
    low, high = chosen.levels
    factors = chosen.accuracy.reweigh_above, chosen.accuracy.halt_below
    assert (low, high) == pytest.approx([0.1 + factor * chosen.alpha for factor in factors])
    halted = play(STR, chosen, World(chosen, low / 2))
    assert (halted.status, halted.iterations) == ("done", 1)
    assert halted.estimate.high < high
    over = play(STR, chosen, world := World(chosen, [0.9, min(1.0, high + 0.15), 1.0]))
    assert (over.status, over.iterations) == ("exhausted", 3)
    assert over.answer == world.questions()[1].query.hypothesis or over.estimate.value < 0.9
    without = tiny("mode=agnostic")
    assert play(STR, without, World(without, low / 2)).status == "exhausted"


@pytest.mark.slow
def test_what_no_theorem_speaks_of_is_named():
    for changes, words in (
        (["agents.loss=hinge"], "the learner sgd minimises logistic"),
        (["agents.loss=logistic"], "gradients on records of norm 1 are up to 1.415 long and clipped to 1"),
        (["agents.loss=logistic", "agents.reweigh=mistakes"], "reweighing goes by mistakes"),
    ):
        assert words in " ".join(violations(load("ball", changes))), words


def test_where_the_learner_minimises_what_is_tested_and_nothing_is_clipped_no_loss_is_named():
    named = violations(load("ball", ["agents.loss=logistic", "agents.bound=43", "curator.learner.clip=1.5"]))
    assert not [text for text in named if "loss" in text]
    bound = plan(load("ball", ["agents.loss=logistic", "agents.bound=43"])).settings["bound"]
    assert bound.value == 43.0
    assert bound.rule == pytest.approx(30 * math.sqrt(2), abs=1e-9)


@for_each(
    ("changes", "words"),
    [
        (["agents.bound=4"], "bound is for a convex loss"),
        (["agents.loss=hinge", "agents.bound=0"], "bound"),
        (["agents.loss=hinge", "agents.bound=2", "protocol=portfolio"], "for protocols that test one hypothesis"),
        (["agents.loss=logistic", "protocol=local-averages"], "for protocols that test one hypothesis"),
        (["accuracy.best=1"], "best"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(BadScenario, match=words):
        load("ball", changes)


@pytest.mark.slow
@for_each("name", ["convex-hinge", "convex-squared"])
def test_a_run_is_done_or_exhausted_and_audited_and_says_what_its_loss_is_a_part_of(name, tmp_path):
    few = ("curator.n=2000", "curator.kappa=0.2", "curator.eta=0.2", "curator.rounds=2", "curator.epsilon=60")
    agents = ("agents.count=6000", "agents.deadline=5", "baselines=[]")
    chosen = checked(load(name, [*few, *agents, "curator.learner.steps=500"]))
    with Bench(tmp_path, chosen) as bench:
        result = bench.run()
        assert audited(bench).status == result["status"]
    assert result["status"] in ("done", "exhausted")
    assert result["answer"]["kind"] == ("regressor" if name == "convex-squared" else "linear")
