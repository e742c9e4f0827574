"""The portfolio from end to end: what it repairs, what it certifies, what it says where it cannot help."""

import itertools
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from common.core.errors import AuditFailed, BadScenario, PolicyRefused
from common.data.population import open_records
from common.local.hypotheses.hypothesis import Linear, parse_hypothesis
from common.local.hypotheses.rules import Constant
from common.local.queries.query import Answers, AskAgents
from common.local.records import Records
from common.numerics.elementary import logistic
from common.numerics.randomness import subseed
from common.operations.operation import Directions, Learn, Learned, Margins
from common.privacy.events import Gaussian
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.protocols.base import AskCurator, Progress
from common.scenario.fitting import QUIET
from common.scenario.loading import load
from common.scenario.plan import resolve
from common.scenario.scenario import ResolvedScenario, Scenario
from common.statistics.calibration import QUARTER
from curator.sample.base import LocalSample
from deploy.baselines import Attempts, evaluation_source, loss, run_baselines
from deploy.checking import checked
from deploy.simulation import SimulatedAgents, conduct, local_curator
from referee.audit.audit import audit
from referee.protocols import portfolio, teaching
from referee.protocols.base import Outcome, Step
from referee.runs.verdict import OF_CONSTANTS, verdict
from tests.referee.protocols.test_protocol_contract import played
from tests.support import Bench, audited, leave_folder
from tests.tiers import for_each

NOBODY = Constant(label=-1)
SMALL = (
    "curator.n=4000", "curator.epsilon=20", "curator.learner.steps=20000", "curator.learner.noise=1",
    "agents.mechanism.epsilon=3", "agents.count=20000", "agents.deadline=5",
)  # fmt: skip


def ignore(*note: Any) -> None:
    pass


def portfolio_small(*changes: str) -> Scenario:
    return checked(load("portfolio", [*SMALL, *changes]))


def conducted(scenario: ResolvedScenario, seed: int = 1) -> Outcome:
    return conduct(scenario, seed, ignore)


def fresh(*changes: str, seed: int = 1) -> Outcome:
    return conducted(resolve(portfolio_small(*changes)), seed)


run = cache(fresh)
"""The same run, once for all tests: where something is patched it must be a fresh one."""


def losses(scenario: Scenario, *hypotheses: Any) -> list[float]:
    """Return the true loss of each, in its JSON form or as it is."""
    people = open_records(scenario.target, None, 5, 50_000)
    return [loss(parse_hypothesis(each) if isinstance(each, dict) else each, people) for each in hypotheses]


def test_a_run_is_done_and_audited_and_its_answer_is_within_the_gap_of_its_rival(tmp_path):
    with Bench(tmp_path / "state", portfolio_small()) as bench:
        result = bench.run()
        folder = leave_folder(tmp_path / "run", bench.chosen, 1, bench.finished())
    assert result["status"] == audit(folder).status
    assert (result["status"] == "done") == (result["gap"] <= 0.05)
    true = losses(bench.chosen, *(judged["hypothesis"] for judged in result["candidates"]))
    answer, rival = true
    for judged, error in zip(result["candidates"], true, strict=True):
        assert judged["estimate"]["low"] - 0.005 <= error <= judged["estimate"]["high"] + 0.005
    compared = result["comparison"]
    assert compared["with"] == result["candidates"][1]["name"]
    assert compared["difference"]["low"] - 0.005 <= answer - rival <= compared["difference"]["high"] + 0.005
    ends = [compared[name][end] for end in ("low", "high") for name in ("difference", "probably", "likely")]
    assert ends == sorted(ends[:3]) + sorted(ends[3:], reverse=True)
    assert (compared["probably"]["confidence"], compared["likely"]["confidence"]) == (0.95, 0.75)
    assert result["gap"] == max(0.0, compared["difference"]["high"])
    beside = result["constant"]
    (constant,) = losses(bench.chosen, beside["hypothesis"])
    assert (compared["with"], constant < 0.5) == ("model", True)
    assert beside["estimate"]["low"] - 0.005 <= constant <= beside["estimate"]["high"] + 0.005
    assert beside["difference"]["low"] - 0.005 <= answer - constant <= beside["difference"]["high"] + 0.005
    said = result["verdict"] if "verdict" in result else verdict(bench.chosen, result).document()
    assert said["constant"] == {"question": OF_CONSTANTS, "answer": "yes"}
    for name, change in (
        ("comparison", {"difference": {**compared["difference"], "high": 0.0}}),
        *(("constant", {"agents": 1}), ("calibrated", {"slope": 0.25}), ("quality", {"threshold": 0.25})),
    ):
        (folder / "result.json").write_text(json.dumps({**result, name: {**result[name], **change}}))
        with pytest.raises(AuditFailed, match=f"{name} differs"):
            audit(folder)


@for_each("inside", [0.3, 0.8, 0.96])
def test_the_odds_of_a_result_are_those_of_the_population(inside):
    """They tell more of labels than the share of +1 does, and their mean is that share."""
    outcome = run(changes := f"target.distribution.inside={inside}")
    people = sample_of_target(portfolio_small(changes))
    odds = outcome.calibrated.margins(people.features).astype(np.float64)
    chance, positive = 1.0 / (1.0 + np.exp(-odds)), people.labels > 0
    rate = positive.mean()
    assert abs(chance.mean() - rate) < 0.05
    log_loss = np.logaddexp(0.0, np.where(positive, -odds, odds)).mean()
    assert log_loss < -rate * np.log(rate) - (1.0 - rate) * np.log(1.0 - rate)


def test_a_survey_tells_how_good_the_odds_are():
    """The intervals hold what is true of 20,000 people of T: curve, rates at the cut, and AUC in bins but one of ten.

    That of the AUC is by the normal law: with 95% it may miss some time.
    """
    costs = (f"agents.costs={json.dumps({'miss': 1, 'false_alarm': 2})}", "agents.count=40000")
    people, missed = sample_of_target(portfolio_small("target.distribution.inside=0.5")), 0
    for changes, seed in itertools.product(((), costs), range(1, 4)):
        outcome = run("target.distribution.inside=0.5", *changes, seed=seed)
        chance = logistic(outcome.calibrated.margins(people.features).astype(np.float64))
        positive, found = people.labels > 0, outcome.quality
        assert found.threshold == pytest.approx(2 / 3 if changes else 1 / 2)
        bins = np.searchsorted([of.high for of in found.bins[:-1]], chance)
        for place, of in enumerate(found.bins):
            assert of.observed.low <= positive[bins == place].mean() <= of.observed.high
        missed += not found.auc.low <= roc_auc_score(positive, bins) <= found.auc.high
        assert found.auc.high - found.auc.low < 0.3
        for e, label in ((found.recall, True), (found.false_alarms, False)):
            assert e.low <= (chance > found.threshold)[positive == label].mean() <= e.high
    assert missed <= 1
    assert run("agents.count=4000").quality is None  # fewer than 20,000 are not surveyed


RARE = ("target.distribution.inside=0.96", "agents.costs={miss: 24, false_alarm: 1}", "agents.count=60000")


def test_an_answer_is_cut_for_the_costs_and_judged_by_them():
    """One of 25 people of T is outside the ball, and missing one costs 24 false alarms: "nobody" is no answer."""
    outcome, chosen = run(*RARE), portfolio_small(*RARE)
    people, costs = evaluation_source(chosen, 3), chosen.agents.costs
    taught = outcome.judged[0]
    assert outcome.answer == taught.hypothesis
    odds = outcome.calibrated.margins(sample_of_target(chosen).features)
    np.testing.assert_array_equal(taught.hypothesis.predict(sample_of_target(chosen).features) > 0, odds > costs.odds)
    answer, nobody = (loss(of, people, costs=costs) for of in (taught.hypothesis, NOBODY))
    assert answer < 0.6 * nobody
    assert loss(NOBODY, people) < loss(taught.hypothesis, people)  # by mistakes alone it would be the better answer


def test_with_costs_the_intervals_hold_the_true_costs():
    """All of a run hold together in 19 of 20 runs at least: two failures in four have a chance of .02 at most."""
    chosen, failed = portfolio_small(*RARE), 0
    people, costs = evaluation_source(chosen, 3), chosen.agents.costs
    for seed in range(1, 5):
        outcome = run(*RARE, seed=seed)
        true = [loss(judged.hypothesis, people, costs=costs) for judged in outcome.judged]
        intervals = [judged.estimate for judged in outcome.judged] + [outcome.comparison]
        found = zip(intervals, [*true, true[0] - true[1]], strict=True)
        failed += not all(of.low <= value <= of.high for of, value in found)
    assert failed <= 1


@pytest.mark.slow
def test_a_run_with_costs_is_audited(tmp_path):
    with Bench(tmp_path, portfolio_small(*RARE, "agents.count=6000")) as bench:
        result = bench.run()
        assert audited(bench).status == result["status"]
    assert result["costs"] == {"miss": 24.0, "false_alarm": 1.0}
    said = verdict(bench.chosen, result).text
    assert "costs" in said
    assert "a hundred people, where a miss costs 24, a false alarm 1" in said
    assert "errs on" not in said


def test_a_model_whose_threshold_is_wrong_for_the_population_is_taught():
    """Four of five people of T are inside the ball, of S a third: the model says outside much too often."""
    outcome = run(inside := "target.distribution.inside=0.8", seed=6)
    taught, rival = outcome.judged
    assert (taught.name, rival.name) == ("model, recalibrated", "constant -1")
    assert (outcome.status, outcome.answer) == ("done", taught.hypothesis)
    chosen = portfolio_small(inside)
    model = conducted(resolve(portfolio_small(inside, "portfolio.teach=0")), 6).judged[0]
    assert model.name == "model"
    answer, before, constant = losses(chosen, taught.hypothesis, model.hypothesis, rival.hypothesis)
    assert answer < min(before - 0.15, constant - 0.03)
    assert outcome.comparison.high < 0.0


def test_a_constant_that_agents_report_to_be_best_is_the_rival_wherever_the_sample_has_its_scores():
    """In the sample a third is inside the ball: by its scores alone -1 would err .27 on T, where it errs .05."""
    for inside, seed in itertools.product((0.8, 0.95), (1, 2)):
        rival = run(f"target.distribution.inside={inside}", seed=seed).judged[1]
        assert rival.name == "constant -1"
        assert rival.estimate.low <= 1.0 - inside <= rival.estimate.high


def test_probabilities_that_are_taught_are_calibrated_on_the_population():
    """By tenths of the people, in the order of their probability, it is nearer to the share of +1 than before."""
    outcome = run("target.distribution.inside=0.8", "agents.count=60000")
    people = sample_of_target(portfolio_small("target.distribution.inside=0.8"))
    chance = logistic(outcome.judged[0].hypothesis.scores(people.features))
    before = logistic(conducted(resolve(portfolio_small("portfolio.teach=0"))).hypothesis.scores(people.features))

    def apart(of: np.ndarray) -> float:
        tenths = np.array_split(np.argsort(of), 10)
        return float(np.mean([abs(of[tenth].mean() - np.mean(people.labels[tenth] > 0)) for tenth in tenths]))

    assert apart(chance) < min(0.1, 0.4 * apart(before))
    assert abs(chance.mean() - np.mean(people.labels > 0)) < 0.05


def test_a_rival_that_is_shown_to_be_better_is_the_answer(monkeypatch):
    """What was taught may be anything: here odds that are upside down."""
    monkeypatch.setattr(portfolio, "teach", upside_down(beside=0))
    outcome = fresh("target.distribution.inside=0.8")
    taught, rival = outcome.judged
    assert outcome.answer == rival.hypothesis != taught.hypothesis
    assert (outcome.gap, outcome.status, outcome.estimate) == (0.0, "done", rival.estimate)
    assert outcome.comparison.low > 0.0
    assert outcome.comparison.agents is None


def test_where_the_curator_s_model_is_the_answer_that_is_compared_with_the_best_constant(monkeypatch):
    """Its own bounds follow from two intervals: of what was taught beside it, and beside the constants."""
    monkeypatch.setattr(portfolio, "teach", upside_down(beside=2))
    for inside in (0.4, 0.6):
        chosen = portfolio_small(change := f"target.distribution.inside={inside}")
        outcome = fresh(change)
        assert outcome.answer == outcome.judged[1].hypothesis
        found = outcome.constant.comparison
        answer, constant = losses(chosen, outcome.answer, outcome.constant.candidate.hypothesis)
        assert constant < 0.5
        assert found.low <= answer - constant <= found.high
        assert (found.likely, found.probable, found.agents) == ((-1.0, 1.0), (-1.0, 1.0), None)


def test_beside_a_constant_that_was_believed_to_be_best_the_answer_is_compared_with_the_other_one(monkeypatch):
    """The rival may be the worse of both: a model that is better than it need not be better than either side."""
    monkeypatch.setattr(portfolio, "teach", upside_down(beside=1, slope=1.0))
    outcome = fresh("target.distribution.inside=0.7")
    assert (outcome.judged[1].name, outcome.gap) == ("constant +1", 0.0)
    assert outcome.constant.candidate.hypothesis == NOBODY
    answer, constant = losses(portfolio_small("target.distribution.inside=0.7"), outcome.answer, NOBODY)
    found = outcome.constant.comparison
    assert 0.0 < found.low <= answer - constant <= found.high < 0.2


def test_with_costs_the_constants_cost_what_their_mistakes_do():
    costs = json.dumps({"miss": 2, "false_alarm": 1})
    chosen = portfolio_small(*(changes := (f"agents.costs={costs}", "target.distribution.inside=0.5")))
    outcome = run(*changes)
    assert outcome.judged[1].name == "model"
    people, weighed = evaluation_source(chosen, 3), chosen.agents.costs
    best = outcome.constant.candidate
    answer, constant = (loss(of, people, costs=weighed) for of in (outcome.answer, best.hypothesis))
    assert best.name == "constant +1"
    assert best.estimate.low <= constant <= best.estimate.high
    assert outcome.constant.comparison.low <= answer - constant <= outcome.constant.comparison.high


def upside_down(beside: int, slope: float = -1.0) -> Callable[..., Any]:
    """Return what teaches odds that are upside down or as they were, and which rival they are to be judged beside."""

    def teach(*given: Any, **named: Any) -> Any:
        yield Progress("nobody is asked", {})
        return teaching.Taught(slope, 0.0, beside)

    return teach


LESS_SURE = "agents.mechanism.epsilon=1"
FEW = "curator.n=60", "agents.count=300", "curator.epsilon=1", "curator.learner={name: full-batch, mu: plan}"


def test_probabilities_of_very_few_people_are_hardly_worse_than_the_share_and_the_reason_says_so():
    """Where the mean of records was mostly noise, people were scored far beyond the radius that was learned with."""
    chosen = portfolio_small(*FEW, LESS_SURE)
    people = sample_of_target(chosen)
    rate = np.mean(people.labels > 0)
    known, worse = -rate * np.log(rate) - (1.0 - rate) * np.log(1.0 - rate), []
    for seed in range(8):
        outcome = conducted(resolve(chosen), seed)
        assert "probabilities may tell no more than the share of the label" in outcome.reason
        worse.append(float(np.logaddexp(0.0, -people.labels * outcome.calibrated.margins(people.features)).mean()))
    assert np.mean(worse) < known + 0.1
    assert max(worse) < known + 0.4
    assert "may tell no more" not in run("agents.count=4000").reason


def test_far_too_few_agents_are_told_so_and_no_interval_is_confident():
    outcome = run("agents.count=60", "alpha=0.01")
    assert outcome.status == "exhausted"
    assert re.search("is shown with 95% confidence to be at most [0-9.]+ points? worse than", outcome.reason)
    assert outcome.comparison.high - outcome.comparison.low > 0.9
    with pytest.raises(BadScenario, match="3 agents are too few for a portfolio"):
        run("agents.count=3")


def test_where_nobody_teaches_all_judge_the_model_and_a_constant():
    """Nothing is counted for what is not taught, the curator's whole budget is the model's, and there are no odds."""
    chosen = resolve(portfolio_small("portfolio.teach=0", "agents.count=300"))
    assert chosen.margins_mu == 0.0
    assert chosen.planned_margins == ()
    outcome = run("portfolio.teach=0", "agents.count=300", "alpha=0.01")
    assert outcome.calibrated is None
    assert [judged.name for judged in outcome.judged] == ["model", "constant -1"]
    assert [judged.asked for judged in outcome.judged] == [132, 131]  # an eighth told labels


def test_few_agents_teach_the_intercept_and_many_the_slope_too():
    for count, kinds in ((4_900, 1), (5_000, 2)):
        scenario = resolve(portfolio_small(f"agents.count={count}"))
        replies = Replies(scenario, SimulatedAgents(scenario, 1))
        played(scenario, replies)
        asked = [step for step in replies.questions if step.query.kind == "residual"]
        assert len(asked) == 3 * kinds
        assert sum("center" in step.query.wire() for step in asked) == 3 * (kinds - 1)
        judging = [step.count for step in replies.questions[-2:]]
        assert sum(judging) <= count / 4 + 2
        assert sum(step.count for step in replies.questions) <= count


def test_the_curator_alone_is_neither_repaired_nor_judged(tmp_path):
    """Its baseline is the curator's model as it is, not a portfolio."""
    asked = portfolio_small("baselines=[curator-only]")
    found = run_baselines(asked, {"agents": {"asked": 1}}, 1, tmp_path, Attempts(ignore), ignore)
    seed = subseed(1, "baseline curator-only") % (1 << 31)
    once = resolve(portfolio_small("protocol=learn-and-test", "curator.rounds=1", "agents.count=100"))
    alone = conducted(once, seed).hypothesis
    assert found["curator-only"]["loss_on_target"] == loss(alone, evaluation_source(asked, seed))


def sample_of_target(scenario: Scenario, count: int = 20_000) -> Records:
    return open_records(scenario.target, None, 5, count).records(np.arange(count))


def sample_of(scenario: ResolvedScenario) -> Records:
    people = open_records(scenario.source, None, subseed(1, "source"), scenario.curator.n)
    return people.records(np.arange(len(people)))


class Replies:
    """What replies for both sides: the curator's own operations, and agents who are silent, or simulated."""

    def __init__(self, scenario: ResolvedScenario, agents: SimulatedAgents | None = None, model: Any = None) -> None:
        self.engine = local_curator(scenario, LocalSample.from_records(sample_of(scenario)), 1)
        self.agents, self.model = agents, model
        self.operations: list[Any] = []
        self.questions: list[AskAgents] = []

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
        self.questions.append(step)
        if self.agents is not None:
            return self.agents.answer(0, step)
        return Answers(0, np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.int64))


def test_the_curator_counts_once_and_no_more():
    scenario = resolve(portfolio_small())
    played(scenario, replies := Replies(scenario))
    (counted,) = replies.of(Margins)
    assert counted.mu == pytest.approx(math.sqrt(0.1) * mu_allowed(scenario.curator.epsilon, scenario.curator.delta))
    assert replies.engine.workspace.event(counted) == Gaussian(mu=counted.mu)
    with pytest.raises(PolicyRefused, match="1 'margins' operations are done"):
        replies(AskCurator(counted))


def test_a_model_with_enormous_weights_is_judged_and_not_recalibrated():
    """A curator may release any half-space that can be sent: the run must neither fail nor believe it."""
    scenario = resolve(portfolio_small())
    huge = Linear(weights=(1e30,) * 8, threshold=-1e30)
    outcome = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1), Learned(hypothesis=huge)))
    assert outcome.answer != huge
    assert outcome.judged[0].name in ("model", "model, recalibrated")


MANY = (
    "agents.count=300000", "curator.n=4000", "curator.epsilon=3", "target.distribution.inside=0.8",
    "curator.learner={name: discriminant, norm: 1.0, mu: plan}",
)  # fmt: skip


def test_very_many_agents_teach_further_directions_of_the_curators_release():
    scenario = resolve(checked(load("portfolio", [*MANY])))
    outcome = played(scenario, replies := Replies(scenario, SimulatedAgents(scenario, 1)))
    (learned,) = replies.of(Learn)
    assert learned.directions == 5
    asked = [step for step in replies.questions if step.query.kind == "residual"]
    assert len(asked) == 6 + 3 * 6
    assert len({step.count for step in asked[6:]}) == 1
    assert sum(step.count for step in replies.questions) <= 300_000
    taught = outcome.judged[0]
    assert taught.name == "model, taught"
    plain = played(scenario, Replies(scenario, SimulatedAgents(scenario, 1), without_directions(scenario)))
    assert plain.judged[0].name == "model, recalibrated"
    better, worse = losses(scenario, taught.hypothesis, plain.judged[0].hypothesis)
    assert better < worse + 0.01


def without_directions(scenario: ResolvedScenario) -> Learned:
    """The same model, and directions about other features than it has."""
    learned = Replies(scenario)(AskCurator(Learn(round=1, directions=2)))
    assert len(learned.directions.rows) == 2
    other = Directions(rows=((1.0, 0.0),), offsets=(0.0,))
    return learned.model_copy(update={"directions": other})


@pytest.mark.slow
def test_the_probabilities_of_a_model_of_few_people_are_not_much_surer_than_it_is(monkeypatch):
    """The scores of a model that is mostly noise are far apart; 300 agents cannot tell how far they should be."""
    noisy = "curator.learner={name: full-batch, mu: plan, rate: 96}"
    chosen = portfolio_small("curator.n=200", "agents.count=300", "curator.epsilon=.5", noisy, LESS_SURE)
    people, believed = sample_of_target(chosen), teaching.beforehand

    def losses() -> tuple[list[float], list[float]]:
        """Return the log losses of what was taught, and of the odds after judges have told how often that errs."""
        runs = [conducted(resolve(chosen), seed) for seed in range(24)]
        taught, judged = [run.judged[0].hypothesis for run in runs], [run.calibrated for run in runs]
        return loss_of(taught), loss_of(judged)

    def loss_of(runs: list[Any]) -> list[float]:
        return [float(np.logaddexp(0.0, -people.labels * odds.margins(people.features)).mean()) for odds in runs]

    found, after = losses()
    assert np.median(after) < np.median(found) + 0.02
    assert np.mean(after) < np.mean(found)
    monkeypatch.setattr(teaching, "beforehand", lambda center, spread, noise: believed(center, spread, 0.0))
    broken, _ = losses()  # every score is taken for the logarithm of the odds
    assert np.median(found) < 0.75 < 0.85 < np.median(broken)
    assert max(found) < 1.2 < max(broken)
    assert np.mean(found) < 0.75 * np.mean(broken)  # of the two or three worst models


def test_what_is_believed_beforehand_follows_the_scores_and_how_noisy_the_model_is():
    certain, noisy, narrow = (teaching.beforehand(2.0, *of) for of in ((9.0, 0.0), (9.0, QUIET), (1.0, QUIET)))
    assert (certain.step, certain.odds, certain.steep) == (0.0, 2.0, 1.0)
    assert np.exp(noisy.step * QUARTER) == pytest.approx(1.6 / 9.0)
    assert noisy.odds == pytest.approx(2.0 * 1.6 / 9.0)
    assert noisy.steep == pytest.approx(0.5**0.5)
    assert (narrow.step, narrow.odds) == (0.0, 2.0)
