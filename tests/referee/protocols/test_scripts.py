"""Local averages: no question depends on an answer, estimates have the stated variance, Fisher's discriminant."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from common.core.errors import BadScenario, PatternViolation, PeerMisbehaved
from common.data.population import open_public, open_records
from common.local.hypotheses.composed import MAX_CLASSES, Argmax, column_classes
from common.local.hypotheses.hypothesis import parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.features import GradientQuery, MomentQuery
from common.local.queries.query import Answers, AskAgents, LossQuery
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import LabelPoints, Learn, Reweigh
from common.protocols.base import AskCurator, AskTogether, as_bits
from common.protocols.patterns import agents, curator, sequence, some, together
from common.scenario.loading import load
from common.scenario.scenario import LEAST_BETA, ResolvedScenario, Scenario, data_folder
from common.statistics.finalists import OF_CONSTANTS, SHARES, BinomialCount, estimated
from common.statistics.intervals import Estimate
from deploy.baselines import evaluation_source, loss
from deploy.checking import checked
from deploy.deployment import Embedded
from deploy.simulation import conduct
from referee.protocols.asking import ask
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, halts, level_of, shown_by
from referee.protocols.driver import begun, drive
from referee.protocols.local import MAX_STEPS, MIN_PER_COORDINATE, TESTED, averages, discriminant
from referee.protocols.subsample_test_reweigh import student
from referee.runs.verdict import verdict
from referee.view import show
from referee.view.pages import report
from referee.view.wording import run_view
from tests.referee.protocols.test_protocol_contract import World, play, played
from tests.support import ALONE, SHELF, Bench, audited, small, tiny
from tests.tiers import for_each

NAME = "local-averages"
QUERY = MomentQuery(dimension=2, bound=1.0, norm=1.5)
WARNER = parse_mechanism({"name": "warner", "epsilon": 1.0})


def two_balls(n, share, seed=0, apart=0.4, sigma=0.1):
    """Two round Gaussian classes, ``apart`` from each other along the first coordinate."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random(n) < share, 1, -1)
    features = random.normal(0.0, sigma, (n, 2)) + 0.1
    features[:, 0] += 0.5 * apart * labels
    return Records(features.astype(np.float32), labels.astype(np.int8))


def told(records, mechanism, seed=1):
    slots = np.arange(len(records))
    return Answers(len(records), mechanism.randomize(QUERY.evaluate(records, slots), RandomSource.seeded(seed)), slots)


def exact(records):
    x, label = records.features.astype(np.float64), records.labels.astype(np.float64)
    return np.array([*x.mean(0), *(label[:, None] * x).mean(0), label.mean(), np.square(x).sum(1).mean()])


def test_the_pattern_admits_one_question_to_learn_from_which_depends_on_no_answer():
    chosen = tiny(f"protocol={NAME}")
    first = []
    for rate in (0.0, 0.3, 1.0):
        play(NAME, chosen, world := World(chosen, rate))
        first.append(world.log[0][1])
    assert first[0] == first[1] == first[2]
    pattern = PROTOCOLS[NAME].pattern
    for after, message in ((pattern.after(("agents", "moment")), ("agents", "moment")), (pattern, ("agents", "loss"))):
        with pytest.raises(PatternViolation):
            after.after(message)


def test_averages_are_unbiased_and_have_the_stated_variance():
    records = two_balls(6000, 0.7)
    truth = exact(records)
    runs = [averages(QUERY, told(two_balls(6000, 0.7, seed), WARNER, seed), WARNER) for seed in range(300)]
    found, stated = np.array([run[0] for run in runs]), np.array([run[1] for run in runs]).mean(axis=0)
    # Six moments at four standard errors, and variances whose ratio has standard deviation sqrt(2/299) = .08.
    np.testing.assert_array_less(np.abs(found.mean(0) - truth), 4.0 * np.sqrt(stated / 300) + 0.01)
    np.testing.assert_allclose(found.var(axis=0) / stated, 1.0, atol=0.35)


@for_each("share", [0.5, 0.8])
def test_the_discriminant_is_the_best_half_space_of_two_round_gaussians(share):
    records = two_balls(200_000, share)
    found = discriminant(exact(records), np.zeros(6))
    # Where share N(x; .3, .1^2) equals (1 - share) N(x; -.1, .1^2), worked out by hand.
    crossing = 0.1 - 0.01 / 0.4 * np.log(share / (1.0 - share))
    weights = np.array(found.weights)
    assert found.threshold / weights[0] == pytest.approx(crossing, abs=0.002)
    assert abs(weights[1] / weights[0]) < 0.01


def test_with_enough_answers_it_comes_close_to_the_best():
    found = discriminant(*averages(QUERY, told(two_balls(60_000, 0.7), WARNER), WARNER))
    assert found.mistakes(two_balls(100_000, 0.7, seed=9)).mean() < 0.06  # the best half-space misses about 2.1%
    means, variances = averages(QUERY, Answers(0, np.zeros(0, np.uint8), np.zeros(0, np.int64)), WARNER)
    assert np.all((means == 0.0) & (variances > 0.0))
    assert discriminant(means, variances).threshold == 0.0


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_too_few_answers_give_the_more_frequent_label_and_not_noise(share):
    records = two_balls(200_000, share, apart=0.0)
    others = two_balls(2000, share, seed=9, apart=0.0)
    losses = []
    for k in range(40):
        part = records.take(np.arange(600 * k, 600 * (k + 1)))
        losses.append(discriminant(*averages(QUERY, told(part, WARNER, k), WARNER)).mistakes(others).mean())
    # Features say nothing here, so 0.1 is the best there is; noise alone would give 0.5.
    assert np.median(losses) == pytest.approx(0.1, abs=0.02)


@for_each("name", [NAME, "local-gradient-descent"])
@for_each(
    ("overrides", "words"),
    [(["target.distribution.norm=null", "source.distribution.norm=null"], "norm"), (["agents.count=1"], "found 1")],
)
def test_what_it_cannot_work_with_is_refused_before_anybody_is_asked(name, overrides, words):
    chosen = tiny(f"protocol={name}", *overrides)
    with pytest.raises(BadScenario, match=words):
        play(name, chosen, lambda number, step: pytest.fail("somebody was asked"))


DESCENT_NAME = "local-gradient-descent"


def told_nothing(step: Any) -> Answers:
    return Answers(step.count, np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64))


def agents_say(chosen: ResolvedScenario, answer: Callable[[AskAgents], Answers]) -> Any:
    """Return how a script ends that asks agents alone."""
    return played(chosen, lambda step: answer(step) if isinstance(step, AskAgents) else None)


def test_the_same_iterates_as_plain_descent_and_the_sum_of_their_later_half():
    """Each agent answers one coordinate; here all coordinates are asked of the same records, without noise."""
    norms = [f"{side}.distribution.norm=2.0" for side in ("source", "target")]
    chosen = small(DESCENT_NAME, "agents.mechanism={name: none}", "agents.count=40000", *norms)
    d, norm, asked = chosen.target.dimension, chosen.target.norm, []
    generator = np.random.default_rng(3)
    x = generator.normal(size=(20, d)).astype(np.float32)
    x *= norm / (1.01 * np.linalg.norm(x, axis=1, keepdims=True))
    labels = np.where(x[:, 0] > 0.1, 1, -1).astype(np.int8)

    def answer(step: AskAgents) -> Answers:
        asked.append(step.count)
        slots = np.arange(20 * (d + 1))
        records = Records(x[slots // (d + 1)], labels[slots // (d + 1)])
        return Answers(step.count, step.query.evaluate(records, slots).astype(np.float64), slots)

    outcome = agents_say(chosen, answer)
    learning = int(40_000 * (1 - TESTED))
    steps = min(MAX_STEPS, learning // (MIN_PER_COORDINATE * (d + 1)))
    assert outcome.iterations == steps > 2
    assert asked == [*steps * [learning // steps], 40_000 - learning]
    features = np.column_stack([x.astype(np.float64), -np.ones(20)])  # the threshold is the last parameter
    iterate, total = np.zeros(d + 1), np.zeros(d + 1)
    for number in range(1, steps + 1):
        weight = labels / (1.0 + np.exp(labels * (features @ iterate)))
        iterate = iterate + 4.0 / (norm**2 + 1.0) * (features * weight[:, None]).mean(axis=0)
        total += iterate * (number > steps / 2)
    assert [*outcome.answer.weights, outcome.answer.threshold] == pytest.approx(total.tolist(), rel=1e-5, abs=1e-7)
    assert (np.sign(features @ total) == labels).mean() > 0.8


def test_with_several_answers_each_the_steps_share_the_agents_by_turns():
    d = small(DESCENT_NAME).target.dimension
    count = -(-3 * MIN_PER_COORDINATE * (d + 1) * 10 // 9)  # three fresh groups of agents to learn from
    asked: list[Any] = []
    for answers, steps, groups in (1, 3, 3), (2, 6, 3), (100, MAX_STEPS, 1):
        chosen = small(DESCENT_NAME, f"agents.count={count}", f"agents.answers={answers}")
        asked.clear()
        agents_say(chosen, lambda step: asked.append(step) or told_nothing(step))
        assert [step.group for step in asked] == [*(k % groups for k in range(1, steps + 1)), None]
        assert {step.count for step in asked[:-1]} == {int(count * (1 - TESTED)) // groups}


def test_a_protocol_that_asks_agents_more_often_than_the_scenario_allows_is_stopped():
    chosen, asked = small(DESCENT_NAME, "agents.answers=2"), []

    def script(scenario: Any, public: int) -> Any:
        for step in range(3):
            asked.append(step)
            yield AskAgents(LossQuery(hypothesis=ONE), 5, group=0)

    twin = cast(Any, SimpleNamespace(script=script))
    with pytest.raises(PatternViolation, match=r"more often than agents.answers=2"):
        drive(begun(twin, chosen, 0), some(agents("loss")), lambda n, s: told_nothing(s), lambda note: None)
    assert asked == [0, 1, 2]


def test_a_protocol_that_asks_once_refuses_several_answers():
    with pytest.raises(BadScenario, match=r"agents.answers: the protocol 'learn-and-test' asks each agent once"):
        small("learn-and-test", "agents.answers=2")


def test_coordinates_about_which_nobody_answers_stay_where_they_are():
    chosen = small(DESCENT_NAME, "agents.count=40000")
    hypotheses: list[Any] = []

    def answer(step: AskAgents) -> Answers:
        if isinstance(step.query, GradientQuery):
            hypotheses.append(step.query.hypothesis)
        return Answers(step.count, np.ones(3, dtype=np.uint8), np.zeros(3, dtype=np.int64))

    agents_say(chosen, answer)
    first, *others = hypotheses[1].weights
    assert first != 0.0
    assert (others, hypotheses[1].threshold) == ([0.0] * (chosen.target.dimension - 1), 0.0)


ONE = Constant(label=1)
PATTERN = sequence(curator("learn"), agents("loss"))
OUTCOME = Outcome("done", 1, ONE, Estimate(value=0.1, low=0.0, high=0.2, confidence=0.95), "because")


def replies(sent: list[Any]):
    def exchange(number: int, step: Any) -> Any:
        sent.append((number, step))
        if isinstance(step, AskCurator):
            return {"hypothesis": ONE.wire()}
        return Answers(step.count, np.zeros(step.count, dtype=np.uint8), np.arange(step.count))

    return exchange


def test_a_message_out_of_turn_is_never_sent_and_ending_too_early_is_a_violation():
    def script(*then: Any):
        yield AskCurator(Learn(round=1))
        for step in then:
            yield step
            raise AssertionError("the driver let it pass")
        return OUTCOME

    for then, words in (((AskCurator(Reweigh(hypothesis=ONE)),), "'reweigh' to the curator"), ((), "may not end")):
        sent: list[Any] = []
        with pytest.raises(PatternViolation, match=words):
            drive(script(*then), PATTERN, replies(sent), lambda note: None)
        assert [step.operation.kind for _, step in sent] == ["learn"]


@for_each(
    "release",
    [None, [], {}, {"hypothesis": None}, {"hypothesis": {"kind": "code"}}, {"hypothesis": ONE.wire(), "x": 1}],
)
def test_a_release_that_is_no_result_of_what_was_asked_for_never_reaches_the_script(release):
    sent: list[Any] = []

    def exchange(number: int, step: Any) -> Any:
        return release if isinstance(step, AskCurator) else replies(sent)(number, step)

    def script():
        yield AskTogether((AskCurator(Learn(round=1)), AskAgents(LossQuery(hypothesis=ONE), 3)))
        raise AssertionError("the driver let it pass")

    at_once = together(curator("learn"), agents("loss"))
    with pytest.raises(PeerMisbehaved, match="the curator released nothing acceptable for 'learn'"):
        drive(script(), at_once, exchange, lambda note: None)
    assert len(sent) == 1, "what leaves at once leaves whatever comes back"


DONE_TESTED = ("the agents' test has rejected that the loss on T is", "or more among those who answer")


@for_each("name", PROTOCOLS.shipped())
def test_every_shipped_protocol_states_what_it_shows_of_those_who_answer_and_a_level_where_it_tests_one(name):
    assert PROTOCOLS[name].done != Protocol.done
    chosen = PROTOCOLS[name].example()[0]
    shown = shown_by(chosen)
    assert "{" not in shown
    assert ("those who answer" in shown) == ("ends exhausted" not in shown)
    assert all(words in shown for words in DONE_TESTED) == halts(chosen)
    assert "no level is tested" in shown or name not in ("learn-and-test", "model-agnostic", "portfolio")


def test_ablations_show_nothing_of_their_own():
    for name, side in ALONE:
        assert shown_by(small(name, alone=side)) == Protocol.done


def test_a_protocol_that_declares_no_test_of_a_level_has_none_whatever_else_it_demands(monkeypatch):
    """As a protocol of another package, whose demands are the usual ones."""
    estimate = {"value": 0.4, "low": 0.35, "high": 0.45, "confidence": 0.95}
    chosen = tiny()
    result = {"status": "done", "reason": "why", "answer": {"kind": "linear"}, "truth": None, "estimate": estimate}
    assert "less than" in verdict(chosen, result).title
    monkeypatch.setattr(PROTOCOLS[chosen.protocol], "tests_level", False)
    assert level_of(chosen) is None
    assert verdict(chosen, result).title == "The model errs on 40% of the population (35% to 45%)"


def test_numbers_are_the_scenarios_own_and_lies_are_a_share_of_the_first_answers():
    shown = shown_by(tiny("alpha=0.1", "accuracy.halt_below=3.7", "beta=0.01"))
    assert "the loss on T is 37% or more" in shown
    assert "with probability 0.01 at most" in shown
    lying = shown_by(tiny("agents.liars=0.1"))
    assert lying.endswith("; if of the first n answers, for every n, at most 0.1 n are lies")
    shown = shown_by(small("portfolio", "alpha=0.05", "beta=0.02"))
    assert "by 5 points at most" in shown
    assert "with probability 0.98 at least" in shown
    assert "by 1.23 points at most" in shown_by(small("portfolio", "alpha=0.05"), 0.0123)
    for beta, sure in (("1e-5", "0.9999"), ("0.00012", "0.9998"), ("0.0314159", "0.9685")):
        assert f"with probability {sure} at least" in shown_by(small("portfolio", f"beta={beta}"))


@for_each("protocol", ["subsample-test-reweigh", "hand-over", "discrepancy"])
def test_a_size_of_the_paper_that_cannot_show_what_is_stated_is_refused_beforehand(protocol):
    """Of 97 answers at epsilon = 8 a loss of the level itself is rejected once in six times, in each round."""
    levels = ("accuracy.reweigh_above=3", "accuracy.halt_below=4") if protocol == "discrepancy" else ()
    paper = ("bounds=paper", "alpha=0.199", *levels)
    with pytest.raises(BadScenario, match=r"N0 = 97 answers are too few to tell losses .* take bounds: tight"):
        small(protocol, *paper, "agents.mechanism.epsilon=8", "agents.count=60000")
    assert small(protocol, *paper, "agents.mechanism.epsilon=0.1", "agents.count=6000000").bounds == "paper"


@for_each("protocol", ["subsample-test-reweigh", "hand-over", "discrepancy"])
def test_levels_that_no_number_of_answers_tells_apart_are_refused_before_the_curator_is_asked(protocol):
    levels = ("accuracy.reweigh_above=3", "accuracy.halt_below=4") if protocol == "discrepancy" else ()
    for answers in ("agents.mechanism={name: warner, epsilon: 1.0e-6}", "agents.test=fixed"):
        with pytest.raises(BadScenario, match=r"cannot be distinguished with 10\^15 answers: widen the gap"):
            small(protocol, answers, "agents.mechanism.epsilon=1.0e-6", *levels)


def test_the_least_beta_leaves_a_confidence_below_one_to_every_part_of_it():
    """Else a run that has spent its budget and its agents' answers would end without its result."""
    part = LEAST_BETA * min(*SHARES.values(), OF_CONSTANTS["constant alone"] / MAX_CLASSES)
    found = estimated(as_bits(WARNER), BinomialCount(3, 10), part, 1.0 - LEAST_BETA)
    assert (found.low, found.high) == (0.0, 1.0)
    assert tiny(f"beta={LEAST_BETA}").beta == LEAST_BETA


def test_learn_and_test_ends_done_whatever_the_loss_is_and_nothing_that_is_printed_claims_a_level(tmp_path, capsys):
    """Its model errs on .4 and twice alpha is .2: as many agents answered as were wanted, and that is all."""
    chosen = tiny("protocol=learn-and-test", "agents.count=4000", "curator.rounds=1", "agents.mechanism.epsilon=3",
                  "alpha=0.1", "accuracy.halt_below=2", "accuracy.reweigh_above=1.5")  # fmt: skip
    with Bench(tmp_path, chosen) as bench:
        result = {**bench.run(), "truth": None, "peak_memory_bytes": 0, "run": "run"}
    assert result["status"] == "done"
    assert result["estimate"]["low"] > 0.2
    assert level_of(chosen) is None
    view = run_view(chosen, result, result["rounds"])
    show.result(chosen, result)
    printed = " ".join(capsys.readouterr().out.split())
    said = "\n".join((view.verdict.title, view.verdict.text, view.verdict.detail, report([view]), printed))
    assert not any(words in said for words in ("below 0.2", "below 20%", "less than 20%"))
    assert dict(view.facts)["what is shown"] == shown_by(chosen)
    assert "no level is tested" in printed


def test_a_gap_is_printed_with_its_probability_and_never_rounded_down():
    chosen = small("portfolio")
    outcome = conduct(chosen, 1, lambda *a: None)
    assert " with 95% confidence to be " in outcome.reason
    if outcome.gap:
        assert float(outcome.reason.partition("at most ")[2].partition(" point")[0]) >= 100.0 * outcome.gap


AGNOSTIC = "model-agnostic"
TREE = {"classifier": "DecisionTreeClassifier", "parameters": {"max_depth": 3}}
VOTES = {"name": "gnmax", "noise": 5.0}
LEARNER = {"name": AGNOSTIC, "chunks": 40, "queries": 60, "teacher": TREE, "student": TREE, "aggregation": VOTES}
SPARSE = {"name": "sparse-vector", "epsilon": 50.0, "delta": 1e-5, "cutoff": 8}


def scenario(**learner: Any) -> Scenario:
    public = {"distribution": tiny().source.distribution.wire(), "count": 60, "labelled": False}
    given = [f"public={json.dumps(public)}", f"curator.learner={json.dumps({**LEARNER, **learner})}"]
    return checked(tiny(f"protocol={AGNOSTIC}", *given, "curator.rounds=1", "curator.kappa=null"))


@for_each(
    "learner",
    [
        {},
        {"aggregation": SPARSE},
        {"student": {"classifier": "GaussianNB"}},
        {"protects": "labels", "chunks": 30},
        {"by": "content"},
    ],
    ids=["gnmax", "sparse vector", "graph", "labels only", "by content"],
)
def test_a_run_is_done_audited_and_the_same_in_a_laboratory(tmp_path, learner):
    with Bench(tmp_path, chosen := scenario(**learner)) as bench:
        result = bench.run()
        assert result["status"] == audited(bench).status == "done"
    assert result["estimate"]["low"] <= result["estimate"]["value"] < 0.5
    assert ("labels only" in result["reason"]) == ("protects" in learner)
    assert conduct(chosen, 1, lambda round, hypothesis: None).answer.wire() == result["answer"]


GOOD = {"labels": [1, None], "hypothesis": ONE.wire(), "protects": "labels"}


def model(release: dict[str, Any], known: Any = (-1, 1)) -> Any:
    """Ask for the labels of two points, and return the student's model."""

    def script():
        return student((yield from ask(LabelPoints(count=2, transfer=True))), known)

    return drive(script(), curator("label"), lambda number, step: release, lambda note: None)


@for_each(
    "wrong",
    [
        *({"labels": labels} for labels in (None, [1], [1, 2], [1, True], [1, 0.5], [1, "1"])),
        {"protects": "nothing"},
        {"hypothesis": None},
        {"hypothesis": {"kind": "linear"}},
        {"surprise": 1},
    ],
    ids=str,
)
def test_labels_that_are_none_are_the_curators_fault(wrong):
    assert model(GOOD) == ONE
    for release in ({**GOOD, **wrong}, *({n: v for n, v in GOOD.items() if n != missing} for missing in GOOD)):
        with pytest.raises(PeerMisbehaved, match="the curator released"):
            model(release)
    release = {**GOOD, "labels": [0, 2]}  # with several classes labels are their numbers
    assert model(release, range(3)) == ONE
    for known in ((-1, 1), range(2)):
        with pytest.raises(PeerMisbehaved, match="the curator released labels other than"):
            model(release, known)


def test_another_learner_is_refused_before_anybody_is_asked():
    with pytest.raises(BadScenario, match="needs the learner of that name"):
        next(PROTOCOLS[AGNOSTIC]().script(tiny(f"protocol={AGNOSTIC}"), 7))


CLASSES_NAME = "model-agnostic-classes"


def test_a_run_is_done_and_audited_and_its_answer_is_a_class(tmp_path):
    sizes = ["curator.n=3000", "curator.epsilon=20", "curator.learner.queries=100", "public.count=100"]
    chosen = checked(load(CLASSES_NAME, [*sizes, "agents.count=3000"]))
    with Bench(tmp_path, chosen) as bench:
        result = bench.run()
        assert result["status"] == audited(bench).status == "done"
    answer = parse_hypothesis(result["answer"])
    assert isinstance(answer, Argmax)
    people = open_records(chosen.target, None, 5, 20_000)
    true = loss(answer, people)
    assert true < 0.2  # 5/6 by chance
    assert result["estimate"]["low"] - 0.01 < true < result["estimate"]["high"] + 0.01
    features = people.records(np.arange(20_000)).features
    assert true == np.mean(answer.classes(features) != column_classes(features, 4, 6))


@pytest.mark.thorough
@pytest.mark.skipif(not (SHELF / "gas_drift").is_dir(), reason="the gas drift files are not here (TANDEM_DATA)")
def test_a_run_on_the_gases_learns_them_from_public_people_who_are_nobody_else(tmp_path):
    chosen = checked(load(CLASSES_NAME, [f"data={SHELF}"]))
    result = Embedded(tmp_path).run(chosen, None, "run", lambda text, numbers: None).result
    assert result["status"] == "done"
    assert loss(parse_hypothesis(result["answer"]), evaluation_source(chosen, 1)) < 0.45  # the constant answer: 0.72
    folder = data_folder(chosen)
    public = open_public(chosen.public, folder, 1)
    curators, population = (open_records(people, folder, 1, None) for people in (chosen.source, chosen.target))
    # Batches 2, 3, 4, 5, 8 and 9, and 300 of batches 1 and 6.
    assert (len(curators) + len(population), len(public)) == (3952, 300)
    assert len(curators) >= chosen.curator.n
    assert len(population) >= chosen.agents.count
    parts = [public.features, *(side.records(np.arange(len(side))).features for side in (curators, population))]
    for features in parts:
        assert (features.shape[1], features.min(), features.max()) == (38, 0.0, 1.0)
        assert (features[:, 32:].sum(axis=1) == 1).all()
    shares = np.bincount(np.concatenate([column_classes(part, 32, 6) for part in parts[1:]])) / 3952
    assert shares.max() == pytest.approx(0.28, abs=0.005)  # the constant answer misses 72%
    everybody = [set(map(bytes, part)) for part in parts]
    assert not everybody[0] & (everybody[1] | everybody[2])
