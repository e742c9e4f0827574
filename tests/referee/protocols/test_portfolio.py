"""The portfolio from end to end: what it repairs, what it certifies, what it says where it cannot help."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.audits.subjects import office
from common.core.errors import AuditFailed, BadScenario, BudgetExceeded, PolicyRefused
from common.data.population import open_records
from common.local.hypotheses.hypothesis import Linear, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.losses import ScoreCells, Tilt
from common.local.queries.query import Answers, AskAgents
from common.local.records import Records
from common.net.messages import MAX_AGENTS, MAX_LISTED
from common.numerics.randomness import RandomSource, subseed
from common.operations.operation import Learn, Learned, Margins, Rake
from common.privacy.events import NoEvent
from common.protocols.base import AskCurator
from common.scenario.loading import load
from common.scenario.plan import plan, resolve
from common.scenario.scenario import ResolvedScenario, Scenario
from common.statistics.calibration import Calibration
from curator.curator import Curator
from curator.sample.base import LocalSample
from deploy import simulation
from deploy.baselines import Attempts, evaluation_source, loss, run_baselines
from deploy.checking import checked
from deploy.simulation import SimulatedAgents, conduct, local_curator
from referee.audit.audit import audit
from referee.protocols import portfolio
from referee.protocols.base import Outcome, Step, protocol_of
from referee.protocols.driver import needed
from tests.referee.protocols.test_protocol_contract import played
from tests.support import Bench, audited, leave_folder, small, tiny
from tests.tiers import for_each

SMALL = (
    "curator.n=4000", "curator.epsilon=20", "curator.learner.steps=20000", "curator.learner.noise=1",
    "agents.mechanism.epsilon=3", "agents.count=20000", "agents.deadline=5",
)  # fmt: skip
FEW = ("portfolio.repair=0", "agents.count=500", "alpha=0.01", "target.distribution.inside=0.4")


def portfolio_small(*changes: str) -> Scenario:
    return checked(load("portfolio", [*SMALL, *changes]))


def conducted(scenario: ResolvedScenario, seed: int = 1) -> Outcome:
    return conduct(scenario, seed, lambda *seen: None)


def run(*changes: str, seed: int = 1) -> Outcome:
    return conducted(resolve(portfolio_small(*changes)), seed)


def losses(scenario: Scenario, *hypotheses: Any) -> list[float]:
    """Return the true loss of each, in its JSON form or as it is."""
    people = open_records(scenario.target, None, 5, 50_000)
    return [loss(parse_hypothesis(each) if isinstance(each, dict) else each, people) for each in hypotheses]


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_is_done_and_audited_and_its_answer_is_within_the_gap_of_the_best(tmp_path, rounds):
    with Bench(tmp_path / "state", portfolio_small(f"curator.rounds={rounds}")) as bench:
        result = bench.run()
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    assert result["status"] == audit(folder).status
    assert (result["status"] == "done") == (result["gap"] <= 0.05)
    assert len(result["candidates"]) == 2 + 2 * rounds
    answer, *true = losses(bench.chosen, result["answer"], *(judged["hypothesis"] for judged in result["candidates"]))
    assert answer <= min(true) + result["gap"] + 0.005
    for judged, error in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.005 <= error <= judged["estimate"]["high"] + 0.005
    stored = json.loads((folder / "result.json").read_text())
    stored["gap"] = 0.0 if stored["gap"] else 0.01
    (folder / "result.json").write_text(json.dumps(stored))
    with pytest.raises(AuditFailed, match="gap differs"):
        audit(folder)


def test_a_model_whose_threshold_is_wrong_for_the_population_is_repaired():
    """Four of five people of T are inside the ball, of S a third: the model says outside much too often."""
    outcome = run(inside := "target.distribution.inside=0.8")
    found = {judged.name: judged for judged in outcome.judged}
    model, repaired = found["model"], found["model, recalibrated"]
    true = losses(portfolio_small(inside), model.hypothesis, repaired.hypothesis)
    assert (outcome.status, outcome.answer) == ("done", repaired.hypothesis)
    assert repaired.estimate.high < model.estimate.low
    assert true[1] < true[0] - 0.15


def test_agents_alone_may_contribute_a_model():
    """The people are two balls of which averages tell little; what matters is that theirs competes, and is planned."""
    outcome = run("portfolio.alone=0.3")
    alone = outcome.judged[2]
    assert (alone.name, alone.hypothesis.kind, alone.asked > 100) == ("agents alone", "linear", True)
    gaps = [plan(portfolio_small(*more)).settings["gap"].value for more in ((), ("portfolio.alone=0.3",))]
    assert gaps[1] > gaps[0]  # one rival more


def test_far_too_few_agents_are_told_so_and_no_interval_is_confident():
    outcome = run("agents.count=60", "alpha=0.01")
    assert outcome.status == "exhausted"
    assert "judges tell no finer, alpha is 0.01: enlarge agents.count" in outcome.reason
    assert (outcome.gap or 0.0) > 0.3
    with pytest.raises(BadScenario, match="5 agents are too few for a portfolio of 1 models"):
        run("agents.count=5")


def test_without_repairs_all_agents_judge_the_model_and_the_constants():
    """Nothing is counted for repairs that are not made, and the curator's whole budget is the model's."""
    chosen = resolve(portfolio_small("portfolio.repair=0", "agents.count=300"))
    assert chosen.margins_epsilon == 0.0
    assert chosen.planned_margins == ()
    outcome = run("portfolio.repair=0", "agents.count=300", "alpha=0.01")
    assert [judged.name for judged in outcome.judged] == ["constant -1", "constant +1", "model"]
    assert outcome.judged[1].asked + outcome.judged[2].asked > 297
    assert outcome.judged[2].asked > 130  # an eighth told labels, which judged the constants


def test_the_last_two_are_compared_by_where_only_one_of_them_errs():
    """At epsilon = 3 hardly anybody lies about a rare event, so by plan that is asked, and tells more."""
    planned, plain = run(*FEW, seed=4), run(*FEW, "portfolio.judging=losses", seed=4)
    assert planned.judged[1].asked + planned.judged[2].asked < 300 < plain.judged[1].asked + plain.judged[2].asked
    assert "500 judges" in planned.reason  # also those who compared
    assert planned.gap < plain.gap or planned.gap == 0.0
    answer, *true = losses(portfolio_small(*FEW), planned.answer, *(judged.hypothesis for judged in planned.judged))
    assert answer <= min(true) + planned.gap + 0.005


@pytest.mark.slow
def test_a_run_that_compares_is_audited(tmp_path):
    with Bench(tmp_path, portfolio_small(*FEW, "portfolio.judging=pairs")) as bench:
        result = bench.run()
        assert audited(bench).status == result["status"]
        assert "sole-error" in bench.finished().transcript


def test_without_repairs_labels_may_be_raked_all_the_same_and_a_second_model_may_not():
    raked = resolve(portfolio_small("portfolio.repair=0", "portfolio.raking=true", "curator.learner.noise=2"))
    assert len(raked.planned_margins) == 1
    with pytest.raises(BadScenario, match="at 0 no agents report how the sample is to be raked for 2 models"):
        portfolio_small("portfolio.repair=0", "curator.rounds=2")


def test_the_curator_alone_is_neither_repaired_nor_judged(tmp_path):
    """Its baseline is the model of a sample that nobody has raked, not a portfolio of one round."""
    asked = portfolio_small("baselines=[curator-only]")
    found = run_baselines(asked, {"agents": {"asked": 1}}, 1, tmp_path, Attempts(ignore), ignore)
    seed = subseed(1, "baseline curator-only") % (1 << 31)
    once = resolve(portfolio_small("protocol=learn-and-test", "curator.rounds=1", "agents.count=100"))
    alone = conducted(once, seed).hypothesis
    assert found["curator-only"]["loss_on_target"] == loss(alone, evaluation_source(asked, seed))


def ignore(*note: Any) -> None:
    pass


def sample_of(scenario: ResolvedScenario) -> Records:
    people = open_records(scenario.source, None, subseed(1, "source"), scenario.curator.n)
    return people.records(np.arange(len(people)))


class Replies:
    """What replies for both sides: the curator's own operations, and agents who are silent, or simulated."""

    def __init__(self, scenario: ResolvedScenario, agents: SimulatedAgents | None = None, model: Any = None) -> None:
        self.engine = local_curator(scenario, LocalSample.of(sample_of(scenario)), 1)
        self.agents, self.model = agents, model
        self.operations: list[Any] = []

    def of(self, kind: type) -> list[Any]:
        """Return the operations of a kind that the curator was asked for."""
        return [operation for operation in self.operations if isinstance(operation, kind)]

    def __call__(self, step: Step) -> Any:
        if isinstance(step, AskCurator):
            self.operations.append(step.operation)
            learned = isinstance(step.operation, Learn) and self.model is not None
            return self.model if learned else self.engine.perform(str(len(self.operations)), step.operation)
        if not isinstance(step, AskAgents):
            return None
        if self.agents is not None:
            return self.agents.answer(0, step)
        return Answers(0, np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64))


def test_the_curator_takes_as_many_counts_as_the_protocol_has_and_no_more():
    scenario = resolve(portfolio_small("portfolio.raking=true"))
    played(scenario, replies := Replies(scenario))
    counted = replies.of(Margins)
    assert len(counted) == 2  # of labels, then by score
    with pytest.raises(PolicyRefused, match="2 'margins' operations are done"):
        replies(AskCurator(counted[0]))


def test_a_model_with_enormous_weights_is_judged_and_not_recalibrated(monkeypatch):
    """A curator may release any half-space that can be sent: the run must neither fail nor believe it."""
    monkeypatch.setattr(portfolio, "calibrate", lambda *given: Calibration(2.0, (0.0,)))
    scenario = resolve(portfolio_small())
    huge = Linear(weights=(1e30,) * 8, threshold=-1e30)
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1), Learned(hypothesis=huge)))
    assert outcome.answer != huge
    assert [judged.name for judged in outcome.judged] == ["constant -1", "constant +1", "model"]


def test_a_referee_that_rakes_where_no_raking_was_planned_gets_no_model(tmp_path):
    """After a rake a record may be drawn more often, so the planned noise no longer fits the budget."""
    scenario = resolve(portfolio_small("curator.epsilon=2", "curator.learner.steps=2000", "curator.learner.noise=1.5"))
    sample = sample_of(scenario)
    tilt = Tilt(cells=ScoreCells(hypothesis=Constant(label=1), cuts=(0.0,)), parts=(0, 0, 1024, 0))
    with office(Curator, scenario, sample, tmp_path / "honest", RandomSource.seeded(3)) as desk:
        assert "hypothesis" in desk.ask(Learn(round=1).wire())[0]
    with office(Curator, scenario, sample, tmp_path / "raked", RandomSource.seeded(3)) as desk:
        desk.ask(Rake(tilt=tilt).wire())
        with pytest.raises(BudgetExceeded, match="asks for"):
            desk.ask(Learn(round=1).wire())
        assert [charge.event for charge in desk._curator._ledger] == [NoEvent()]


def test_the_noise_on_a_share_is_what_it_is_taken_for():
    """Of 240 numbers, seeded: their deviation has one of its own of .07, by the kurtosis of a Laplace law, 6."""
    scenario = resolve(portfolio_small("portfolio.raking=true"))
    sample = LocalSample.of(sample_of(scenario))
    counted = Margins(cells=portfolio._BY_LABEL, epsilon=scenario.planned_margins[0].epsilon)
    released = [local_curator(scenario, sample, seed).perform("0", counted).fractions for seed in range(60)]
    found = math.sqrt(np.var(released, axis=0).mean())
    assert found == pytest.approx(portfolio.PortfolioPlan.of(scenario).deviation(0), rel=0.35)


@for_each("models", [1, 2])
def test_labels_are_raked_to_the_populations_share(models):
    """T has .6 inside the ball, S .4 or so: the tilts that are sent make the labels' weights those of T.

    A second rake goes on from the weights that the first has left. Measured against a sample that nobody raked, it
    would add the same shift of labels once more.
    """
    scenario = resolve(portfolio_small("portfolio.raking=true", f"curator.rounds={models}"))
    inside = Linear(weights=(0.0,) * 5 + (1.0, 0.0, 0.0), threshold=0.1)  # any model will do
    replies = Replies(scenario, SimulatedAgents(scenario, 1), Learned(hypothesis=inside))
    played(scenario, replies)
    tilts = [rake.tilt for rake in replies.of(Rake)]
    assert len(tilts) == models
    people, target = (
        open_records(of, None, 3, 20_000).records(np.arange(20_000)) for of in (scenario.source, scenario.target)
    )
    parts = sum(tilt.count(people).astype(np.float64) for tilt in tilts)
    weights = np.exp(scenario.curator.eta * parts / 1024.0)
    share = weights[people.labels > 0].sum() / weights.sum()
    assert share == pytest.approx(np.mean(target.labels > 0), abs=0.03)
    assert abs(np.mean(people.labels > 0) - np.mean(target.labels > 0)) > 0.1


ONCE = ["learn-and-test", "hypothesis-testing", "select-then-estimate"]


def answering(monkeypatch: pytest.MonkeyPatch, keeps: Callable[[np.ndarray], Any]) -> list[int]:
    """Let only those answer who are kept, given all answers; return how many each question asks."""
    real, asked = SimulatedAgents.answer, []

    def fewer(self, number, step):
        asked.append(step.count)
        found = real(self, number, step)
        kept = keeps(found.values)
        return Answers(found.asked, found.values[kept], found.slots[kept])

    monkeypatch.setattr(simulation.SimulatedAgents, "answer", fewer)
    return asked


def share_answers(monkeypatch: pytest.MonkeyPatch, share: float) -> list[int]:
    return answering(monkeypatch, lambda values: slice(int(share * len(values))))


@for_each("protocol", ONCE)
def test_half_of_what_the_guarantee_takes_is_not_done(protocol, monkeypatch):
    chosen = small(protocol)
    least, count = needed(chosen), chosen.agents.count
    assert conducted(chosen).status == "done"
    share_answers(monkeypatch, share := 0.5 * least / count)
    few = conducted(chosen)
    assert few.status == "exhausted"
    assert f"{int(share * count):,} of {count:,} agents answered" in few.reason
    assert f"{least:,}" in few.reason


def test_a_search_that_ends_early_is_done_with_the_answers_that_it_asked_for(monkeypatch):
    """It asks for fewer than were planned; half of these are too few all the same."""
    chosen, asked = small("parity-and-threshold"), share_answers(monkeypatch, 1.0)
    assert conducted(chosen).status == "done"
    assert sum(asked) < needed(chosen)
    share_answers(monkeypatch, 0.5)
    few = conducted(chosen)
    assert few.status == "exhausted"
    assert "agents answered, and the guarantee takes" in few.reason


def test_the_least_is_what_is_refused_beforehand():
    chosen = small("hypothesis-testing")
    least = needed(chosen)
    assert 0 < least <= chosen.agents.count
    section = chosen.agents.model_copy(update={"dropout": 0.5})
    assert needed(chosen.model_copy(update={"agents": section})) == least
    assert needed(tiny()) == 0  # a sequential test decides on what it has heard


@for_each("protocol", ["learn-and-test", "subsample-test-reweigh", "portfolio"])
def test_answers_that_no_honest_agents_give_are_not_done_and_tell_nothing(protocol, monkeypatch):
    """Of all answers those that say 1 are left out: what remains would be a loss of 0, for certain."""
    chosen = small(protocol)
    assert "answers were left out" not in conducted(chosen).reason
    answering(monkeypatch, lambda values: values == 0)
    outcome = conducted(chosen)
    assert outcome.status == "exhausted"
    assert "0 of " in outcome.reason
    assert "answers were left out because of what they say, or many agents lie" in outcome.reason
    estimates = [outcome.estimate, *(judged.estimate for judged in outcome.judged)]
    assert {(estimate.low, estimate.high) for estimate in estimates if estimate} <= {(0.0, 1.0)}
    assert outcome.gap in (None, 1.0)


def test_silent_people_of_a_real_run_are_said_and_audited(tmp_path):
    chosen = tiny("protocol=learn-and-test", "agents.count=700", "agents.dropout=0.0", "agents.deadline=5")
    with Bench(tmp_path, chosen) as bench:
        bench.population._dropout = 0.7
        result = bench.run()
        assert result["status"] == audited(bench).status == "exhausted"
    assert result["agents"]["asked"] == 700
    assert result["lost"]["silent"] == 700 - result["agents"]["answered"] > 400
    assert "enrol more agents" in result["reason"]


def script_of(chosen: ResolvedScenario, **agents: int) -> Any:
    """Return the script of a scenario with other numbers of agents than it may have."""
    section = chosen.agents.model_copy(update=agents)
    return protocol_of(chosen).script(chosen.model_copy(update={"agents": section}), 7)


@for_each(
    ("protocol", "most"),
    [("local-averages", MAX_LISTED), *((name, MAX_AGENTS) for name in (*ONCE, "local-gradient-descent"))],
)
def test_no_question_is_cut_off_in_silence(protocol, most):
    """More than one question reaches are refused with both numbers, before anybody is asked anything."""
    with pytest.raises(BadScenario, match=rf"one question .*reaches {most:,} agents, .* were to answer it"):
        next(script_of(small(protocol), count=30 * most))


def test_a_question_that_asks_everybody_the_same_reaches_more_than_can_be_listed():
    chosen = tiny("agents.mechanism.epsilon=0.001")
    script = script_of(chosen, count=10**8, batch=10_000_000)
    assert isinstance(next(script), AskCurator)
    script.send(Learned(hypothesis=Linear(weights=(0.0,) * 8, threshold=0.0)))  # says that it tests
    step = script.send(None)
    assert step.count == 10_000_000 > MAX_LISTED
