"""Subsample-Test-Reweigh with a convex loss (Algorithm 4), and handed over from task to task and from run to run."""

import math
from typing import Any

import numpy as np
import pytest

from common.core.errors import AuditFailed, BadMessage, BadScenario, PeerMisbehaved, PolicyRefused
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Linear, parse_hypothesis
from common.local.losses import ROUNDING, HypothesisLoss, evaluate
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Learn
from common.privacy.budget import sampling_schedule
from common.scenario.accepting import violations
from common.scenario.loading import handed_over, load
from common.scenario.plan import plan
from common.scenario.scenario import ResolvedScenario
from common.statistics import formulas
from curator.curator import events_of_run
from curator.learners.base import learn_from
from curator.learners.half_spaces import Sgd
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from deploy.checking import checked
from referee.audit.audit import reweighs_of
from tests.curator.given import cumulative_losses, law
from tests.referee.protocols.test_protocol_contract import STR, World, play
from tests.support import Bench, audited, tiny
from tests.tiers import for_each

BOUND = 2.0


def mu_of(weights: Reweighing, sample: LocalSample) -> np.ndarray:
    relative = law(weights, sample)
    return relative / relative.sum()


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
    weights, sample = Reweighing(n, kappa, 4.0 * gap), LocalSample.from_records(records)
    for _ in range(most):
        allowed = np.flatnonzero(losses @ mu_of(weights, sample) <= best + alpha)
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


# Hand-over: weights go from task to task, with one budget and one number of rounds ------------------------------------

HAND_OVER = "hand-over"
BALLS = "{name: gaussian-balls, side: %s, d: 8, close: 2, sigma_source: 0.1, sigma_target: 0.07, inside: 0.4, \
second: 0.3, center: 0.01, scale: 8.0, norm: 1.0}"
TASKS = (Task(features=8), Task(features=8, label=8))


def two_tasks(*overrides: str):
    people = [f"{place}.distribution={BALLS % side}" for place, side in (("source", "source"), ("target", "target"))]
    tasks = "tasks=[{features: 8}, {features: 8, label: 8}]"
    return tiny(f"protocol={HAND_OVER}", *people, tasks, "baselines=[]", "curator.rounds=5", *overrides)


def test_the_second_task_begins_with_the_weights_of_the_first():
    chosen = two_tasks()
    outcome = play(HAND_OVER, chosen, world := World(chosen, [1.0, 0.0, 1.0, 0.0]))
    operations = world.operations()
    # Nothing is reset in between, and an accepted hypothesis is not reweighed by.
    assert [o.kind for o in operations] == ["learn", "reweigh", "learn", "learn", "reweigh", "learn"]
    assert [(o.round, o.task) for o in operations if isinstance(o, Learn)] == [
        (1, TASKS[0]), (2, TASKS[0]), (3, TASKS[1]), (4, TASKS[1]),
    ]  # fmt: skip
    assert [o.hypothesis.kind for o in operations if o.kind == "reweigh"] == ["linear", "relabelled"]
    assert (outcome.status, outcome.iterations) == ("done", 4)
    assert [(t.status, t.iterations) for t in outcome.tasks] == [("done", 2), ("done", 2)]
    assert outcome.answer == outcome.tasks[1].answer


@for_each(
    ("rates", "tasks"),
    [
        ([1.0] * 5, [("exhausted", 5)]),
        ([1.0] * 4 + [0.0], [("done", 5)]),
        ([0.0, 1.0, 1.0, 1.0, 1.0], [("done", 1), ("exhausted", 4)]),
    ],
)
def test_all_tasks_share_the_rounds(rates, tasks):
    outcome = play(HAND_OVER, chosen := two_tasks(), World(chosen, rates))
    assert (outcome.status, outcome.iterations) == ("exhausted", 5)
    assert [(t.status, t.iterations) for t in outcome.tasks] == tasks


def test_agnostic_tasks_share_the_rounds_equally_and_agents_are_asked_about_the_label_of_the_task():
    chosen = two_tasks("mode=agnostic", "curator.rounds=4")
    outcome = play(HAND_OVER, chosen, World(chosen, 0.3))
    assert [t.iterations for t in outcome.tasks] == [2, 2]
    chosen = two_tasks()
    play(HAND_OVER, chosen, world := World(chosen, 0.0))
    assert [step.query.hypothesis.kind for step in world.questions()] == ["linear", "relabelled"]


def test_one_task_is_subsample_test_reweigh():
    names = (HAND_OVER, STR)
    worlds = [World(tiny(f"protocol={name}"), 0.3) for name in names]
    one, two = (play(name, world.chosen, world) for name, world in zip(names, worlds, strict=True))
    assert [step for _, step, _ in worlds[0].log] == [step for _, step, _ in worlds[1].log]
    assert (one.status, one.answer, one.estimate) == (two.status, two.answer, two.estimate)


def test_a_curator_whose_hypothesis_sees_the_label_is_at_fault():
    chosen = two_tasks()

    class Peeping(World):
        def released(self, operation):
            peeps = isinstance(operation, Learn) and operation.task == TASKS[1]
            looked_at = {"kind": "linear", "weights": [1.0] * 9, "threshold": 0.0}
            return {"hypothesis": looked_at} if peeps else super().released(operation)

    world = Peeping(chosen, 0.0)
    with pytest.raises(PeerMisbehaved, match="features before it only"):
        play(HAND_OVER, chosen, world)
    assert [o.task for o in world.operations()] == list(TASKS)


def test_a_run_is_charged_for_both_tasks_and_audited(tmp_path):
    chosen = two_tasks("accuracy.halt_below=5.9", "accuracy.reweigh_above=5.5", "agents.mechanism.epsilon=6")
    with Bench(tmp_path, chosen) as bench:
        result = bench.run()
        charged = [charge for charge in bench.curator._ledger if charge.operation["kind"] == "learn"]
        statuses = result["status"], audited(bench).status, *(task["status"] for task in result["tasks"])
    assert statuses == ("done",) * 4
    assert result["answer"] == result["tasks"][1]["answer"]
    assert result["answer"]["kind"] == "relabelled"
    assert len(charged) == result["iterations"] == sum(task["iterations"] for task in result["tasks"])


NEVER = "accuracy={reweigh_above: 0.001, halt_below: 0.002}"  # no round halts, so each reweighs


def after(first: Bench, *overrides: str) -> ResolvedScenario:
    """Return the scenario of a run about the second task that begins with the weights that a bench's run has left."""
    second = two_tasks("tasks=[{features: 8, label: 8}]", *overrides)
    return checked(handed_over(second, reweighs_of(first.folder / "left-run")))


@for_each("seed", [1, 2])
def test_a_run_begins_with_the_weights_of_an_earlier_one_also_on_other_people(tmp_path, seed):
    """The curator of the second run reweighs as the first did: with the same people its weights are the same."""
    with Bench(tmp_path / "one", two_tasks("tasks=[{features: 8}]", "curator.rounds=3", NEVER)) as one:
        one.run()
        audited(one)
        with Bench(tmp_path / "two", chosen := after(one, NEVER, "curator.rounds=1"), seed=seed) as two:
            two.run()
            assert [entry.operation["kind"] for entry in two.curator._ledger] == ["reweigh", "reweigh", "learn"]
            assert audited(two).operations == 3
            first, second = (cumulative_losses(bench.curator._engine.workspace.sample) for bench in (one, two))
            assert np.array_equal(first, second) == (seed == 1)
            assert any("begins with weights of another run" in each for each in violations(chosen))
            # The call is charged at the bound of two reweighs before it.
            (event,), section = events_of_run(chosen, two.curator._policy), chosen.curator
            bounds = [sampling_schedule(section.n, section.kappa, section.eta, 1, before)[0] for before in (0, 2)]
            assert getattr(event, "tv_bound") == bounds[1] > bounds[0]  # noqa: B009 - of sampled events alone
            # One reweigh for each round, and those that were handed over.
            two.perform(3, chosen.handed_over[0].wire())
            with pytest.raises(PolicyRefused, match="reweigh"):
                two.perform(4, chosen.handed_over[0].wire())


def test_only_a_run_that_passes_its_audit_is_taken_over_and_only_by_a_protocol_that_reweighs(tmp_path):
    with Bench(tmp_path, two_tasks("tasks=[{features: 8}]", NEVER)) as one:
        one.run()
        audited(one)
    reweighs = reweighs_of(tmp_path / "left-run")
    assert len(reweighs) == 4
    for protocol in ("learn-and-test", "local-averages"):
        with pytest.raises(BadScenario, match=f"handed_over: the protocol '{protocol}' begins with uniform weights"):
            handed_over(tiny(f"protocol={protocol}"), reweighs)
    transcript = tmp_path / "left-run" / "transcript.jsonl"
    transcript.write_text(transcript.read_text().replace('"kind":"reweigh"', '"kind":"reweigh" ', 1))
    with pytest.raises((AuditFailed, BadMessage)):
        reweighs_of(tmp_path / "left-run")


def half_plane(random: np.random.Generator) -> dict[str, Any]:
    return {"kind": "linear", "weights": random.normal(size=2).tolist(), "threshold": float(random.normal() / 2)}


@for_each("seed", range(20))
def test_the_sampling_bound_holds_across_tasks(seed):
    """Neighbours differ in one person, with both labels; hypotheses of both tasks come in any order."""
    random = np.random.default_rng(seed)
    features = np.column_stack([random.normal(size=(60, 2)), random.integers(0, 2, 60)]).astype(np.float32)
    labels = random.choice([-1, 1], 60).astype(np.int8)
    other, swapped = features.copy(), labels.copy()
    other[0], swapped[0] = [*random.normal(size=2), 1.0 - features[0, 2]], -labels[0]
    samples = [LocalSample.from_records(Records(*pair)) for pair in ((features, labels), (other, swapped))]
    both = [Reweighing(60, 0.3, 0.5) for _ in samples]
    for _ in range(12):
        plane = half_plane(random)
        second = {"kind": "relabelled", "column": 2, "hypothesis": plane}
        hypothesis = parse_hypothesis(second if random.random() < 0.5 else plane)
        mus = []
        for weights, sample in zip(both, samples, strict=True):
            weights.update(sample, HypothesisLoss(hypothesis))
            mus.append(mu_of(weights, sample))
        moves = mus[0] - mus[1]
        apart = max(moves[1:].clip(0).sum(), (-moves[1:]).clip(0).sum(), mus[0][0], mus[1][0])
        assert apart <= both[0].sampling_bound() * (1 + 1e-12)


@for_each(("seed", "kappa"), [(seed, kappa) for seed in range(6) for kappa in (0.2, 0.5, 1.0)])
def test_each_certified_reweigh_lowers_the_potential(seed, kappa):
    """KL(u || W) - KL(mu || W) falls by eta (E_u - E_mu)[loss] - eta^2/8, also where the cap binds; any u will do."""
    random = np.random.default_rng(seed)
    n, eta = 300, 0.4
    u = random.exponential(size=n)
    u = np.minimum(u, np.quantile(u, 0.9)) + 0.2
    u /= u.sum()
    labels = random.choice([-1, 1], n).astype(np.int8)
    sample = LocalSample.from_records(Records(random.normal(size=(n, 2)).astype(np.float32), labels))
    weights = Reweighing(n, kappa, eta)

    def state():
        scores = cumulative_losses(sample).astype(np.float64)
        w = np.exp(eta * (scores - scores.max()))
        return w / w.sum(), mu_of(weights, sample)

    def potential(w, mu):
        return float(np.sum(u * np.log(u / w)) - np.sum(mu * np.log(mu / w)))

    for _ in range(10):
        w, mu = state()
        hypothesis = parse_hypothesis(half_plane(random))
        losses = np.concatenate([hypothesis.mistakes(block).astype(np.float64) for block in sample.blocks(n)])
        weights.update(sample, HypothesisLoss(hypothesis))
        assert potential(*state()) <= potential(w, mu) - eta * float((u - mu) @ losses) + eta**2 / 8.0 + 1e-9
