"""What the agents' answers contradict of a scenario's assumptions."""

import numpy as np

from common.scenario.loading import load
from common.statistics.formulas import largest_loss_on_target, loss_on_source
from deploy.checking import checked
from referee.view.assumptions import contradictions
from tests.support import tiny
from tests.tiers import for_each

ASSUMED = ("alpha=0.1", "accuracy={learner: 0.5, reweigh_above: 1.5, halt_below: 2.0}")
DIVERGENCE = "divergence={chi_squared: 1.5, supremum: 2.0}"  # bounds of .1 by the ratio, .2041 by the spread


def found(lows, status="done", used=None, *more):
    chosen = tiny(*ASSUMED, DIVERGENCE, f"curator.rounds={max(2, len(lows))}", *more)
    rounds = [{"round": float(n), "low": low} for n, low in enumerate(lows, start=1)]
    reason = f"all {len(lows)} rounds were used"
    document = {"status": status, "reason": reason, "iterations": used or len(lows), "rounds": rounds}
    return contradictions(chosen, document)


def test_no_event_is_more_frequent_in_t_than_the_bound_says_and_some_are_as_frequent():
    random = np.random.default_rng(1)
    closest = 0.0
    for _ in range(300):
        s, t = random.dirichlet(np.full(6, 0.7), size=2)
        x, supremum = float((t * t / s).sum()), float((t / s).max())
        for event in range(1, 63):
            inside = np.array([event >> k & 1 for k in range(6)], dtype=bool)
            source, target = float(s[inside].sum()), float(t[inside].sum())
            most = largest_loss_on_target(source, x, supremum)
            assert target <= most * (1 + 1e-12)
            closest = max(closest, target / most)
    assert closest > 0.999
    # Two points: the spread's bound is reached.
    assert abs(largest_loss_on_target(0.2, 0.5**2 / 0.2 + 0.5**2 / 0.8) - 0.5) < 1e-12


def test_the_loss_on_s_that_suffices_is_the_largest_one():
    random = np.random.default_rng(2)
    for x, supremum, target in zip(
        random.uniform(1, 50, 200), random.uniform(1, 99, 200), random.uniform(1e-4, 0.5, 200), strict=True
    ):
        for known in (supremum, np.inf):
            source = loss_on_source(target, x, known)
            assert largest_loss_on_target(source, x, known) <= target
            assert largest_loss_on_target(source * 1.001, x, known) > target
            assert source >= max(target / known, target**2 / x) * (1 - 1e-9)


@for_each(
    ("low", "words"),
    [
        (0.1, []),
        (0.11, ["D_inf is at least 2.2, assumed as 2"]),
        (0.3, ["D_inf is at least 6", "chi^2 + 1 is at least 2.315"]),
    ],
)
def test_a_first_model_that_errs_more_than_the_divergence_admits_is_told(low, words):
    told = found([low, 0.01])
    assert len(told) == bool(words)
    assert all(each in told[0] for each in words)
    assert not found([0.01, low])  # later models are not learned on S as it is


def test_alpha_h_is_part_of_what_a_model_may_lose_and_nothing_is_said_where_mistakes_are_not_tested():
    assert found([0.3])
    assert not found([0.3], "done", None, "accuracy.best=0.1")
    assert found([0.31], "done", None, "accuracy.best=0.1")
    hinge = "agents.loss=hinge"
    assert found([0.3], "done", None, hinge)
    assert not found([0.3], "done", None, hinge, "agents.reweigh=mistakes")


def test_all_rounds_used_up_contradict_the_assumptions_together_unless_the_plan_is_violated():
    planned = checked(load("parity"))
    rounds = [{"round": float(n), "low": 0.0} for n in range(1, planned.curator.rounds + 1)]
    reason = f"all {len(rounds)} rounds were used"
    ended = {"status": "exhausted", "reason": reason, "iterations": len(rounds), "rounds": rounds}
    (told,) = contradictions(planned, ended)
    assert told.startswith(f"all {len(rounds)} rounds were used, which happens with probability 0.15 at most")
    assert not contradictions(planned, {**ended, "status": "done"})
    assert not contradictions(planned, {**ended, "iterations": 0})
    assert contradictions(planned, {**ended, "reason": f"{reason}; the answer is the first round's"}) == [told]
    lies = f"{reason}; but the answers are none that honest agents give"
    early = [{**each, "low": 0.9} for each in rounds]
    assert not contradictions(planned, {**ended, "reason": lies, "rounds": early}), "nor does what they say of round 1"
    for other in (
        lies,
        "all agents were asked by round 1",
        "the loss on T is shown to be below the level; but many lie",
    ):
        assert not contradictions(planned, {**ended, "reason": other}), "its last test did not decide"
    assert not found([0.08] * 3, "exhausted")  # of which the plan says that its rounds are too few


def test_what_is_said_is_about_those_who_answer_and_of_a_first_model_of_the_sample_as_it_is():
    (told,) = found([0.3, 0.01])
    assert told.startswith("among those who answer, with 95% confidence, the first model errs on at least 0.3 of T")
    handed = 'handed_over=[{"kind": "reweigh", "hypothesis": {"kind": "constant", "label": 1}}]'
    assert not found([0.3, 0.01], "done", None, handed)
    assert not found([0.3] * 3, "exhausted", None, handed)


def test_no_number_of_what_is_contradicted_is_larger_than_what_was_shown():
    (told,) = found([0.34567, 0.01])
    assert "errs on at least 0.3456 of T, and one that errs on 0.05 of S, as accuracy.learner assumes" in told
    assert "errs on 0.1 of T at most: either" in told
    assert "D_inf is at least 6.913, assumed as 2 and chi^2 + 1 is at least 2.84, assumed as 1.5" in told


def test_nothing_is_contradicted_where_nothing_is_assumed():
    assert not found([0.5, 0.5], "exhausted", None, "mode=agnostic")
