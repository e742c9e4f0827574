"""Discrepancy between S and T in the place of importance weights: pairs of hypotheses are tested, and reweighed by."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, Self

from common.core.errors import BadScenario
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.rules import Constant
from common.local.queries.features import MomentQuery
from common.local.queries.query import AskAgents, LossQuery, PairQuery
from common.operations.operation import Learn, Reweigh
from common.protocols.base import Progress, pattern_of
from common.scenario.plan import RIVALS
from common.scenario.scenario import ResolvedScenario
from common.statistics.evidence import Verdict
from referee.protocols.asking import LevelTestPlan, ask, at_once, estimate_mean, test_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, TestedPair, all_used
from referee.protocols.local import LocalPlan, averages, discriminant

ALONE = 0.2  # share of the agents who report averages, from which agents alone learn
KEPT = 0.1  # share of the agents who are asked for the answer's loss, if so many are left


@dataclass(frozen=True)
class PairsPlan:
    """The numbers of a resolved scenario that the protocol uses: ``rounds`` (T), whose pairs ``levels`` tests."""

    rounds: int
    count: int
    alone: LocalPlan
    levels: LevelTestPlan

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> Self:
        """Return the scenario's plan; BadScenario if its levels are out of range, or agents too few for each part."""
        agents = scenario.agents
        if scenario.accuracy.best is not None:
            raise BadScenario("protocol discrepancy compares with rivals: leave out accuracy.best")
        low, high = ((1.0 + level) / 2.0 for level in scenario.levels)
        if high >= 1.0:
            raise BadScenario(f"accuracy.halt_below * alpha must be below 1, found {scenario.levels[1]:g}")
        if int(ALONE * agents.count) < 1 or int(KEPT * agents.count) < 1:
            raise BadScenario(f"agents.count: {agents.count} agents are too few to learn alone, and to test")
        alone = LocalPlan.of(scenario, "what agents learn alone needs")
        return cls(scenario.curator.rounds, agents.count, alone, LevelTestPlan.of(scenario, (low, high), RIVALS))


@PROTOCOLS.register("discrepancy")
class Discrepancy(Protocol):
    """Find a hypothesis that is no worse on T than rivals, by the discrepancy of S and T for pairs of hypotheses.

    The rivals are what agents alone learn from averages, and both constants. In every round the curator's learner
    returns h from its weighted sample mu, and for each rival g fresh agents report by how much L(T, h) - L(T, g)
    exceeds 0. The learner is as good as any rival on mu, up to learner alpha; so where h is worse than g on T, the
    pair's difference of losses on mu is not that on T: a (one-sided) *discrepancy*. Then records on which only h errs
    gain weight over those on which only g errs, and the next round begins.

    *What is tested.* Pairs of the last round's h and each rival, at levels of L(T, h) - L(T, g); nothing is known about
    other pairs. *Guarantee.* Done: with probability 1 - beta, L(T, h) < L(T, g) + halt_below alpha for each rival g.
    *Rounds.* Let u be a kappa-dense distribution on the sample with L(u, h) - L(u, g) >= L(T, h) - L(T, g) - s for all
    pairs, s both slacks of :func:`common.statistics.formulas.pair_gap`, and let the learner have L(mu, h) <= L(mu, g) +
    learner alpha in every round. Then at most K/(2 g^2) rounds reweigh, with g as planned: docs/discrepancy.md has the
    proof. Neither a perfect hypothesis nor alpha_H is assumed: with a perfect rival it is Subsample-Test-Reweigh.
    *Heuristic:* the choice of rivals. A model that is as good as all of them may still be far from the best.
    """

    done = (
        "the agents' tests have rejected that the answer's loss on T exceeds by {more} or more that of what agents "
        "alone learned, or that of either constant, among those who answer; with probability {beta} at most a run "
        "rejects one of these although it is true, over all its rounds; nothing is stated about other hypotheses"
    )
    pattern = pattern_of("discrepancy")
    small = ("protocol=discrepancy", "accuracy.reweigh_above=3", "accuracy.halt_below=4")

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = PairsPlan.of(scenario)
        rivals = yield from _rivals(plan)
        answer: Hypothesis = rivals[0][1]
        status: Literal["done", "exhausted"] = "exhausted"
        pairs: list[TestedPair] = []
        reason, t = "", 0
        for t in range(1, plan.rounds + 1):
            answer = (yield from ask(Learn(round=t))).hypothesis
            verdict, pairs = yield from _compared(plan, answer, rivals, t)
            if verdict == "below":
                status, most = "done", 2.0 * plan.levels.high - 1.0
                reason = f"round {t}: each of {len(rivals)} rivals is shown to be better by less than {most:g}"
            elif verdict is None:
                reason = f"all agents were asked by round {t}"
            elif t < plan.rounds:
                yield from ask(Reweigh(hypothesis=answer, rival=pairs[-1].hypothesis))
                continue
            else:
                answer, pairs = pairs[-1].hypothesis, []
                reason = f"{all_used(t)}; the last one's rival was better, and is the answer"
            break
        query, count = LossQuery(hypothesis=answer), int(KEPT * plan.count)
        finding = yield from estimate_mean(query, plan.alone.answering, at_once(count, alike=True), 1)
        yield Progress("tested", {"asked": finding.asked})
        return Outcome(status, t, answer, finding.estimate, reason, summary=finding.summary, pairs=tuple(pairs))


def _rivals(plan: PairsPlan) -> Generator[Any, Any, list[tuple[str, Hypothesis]]]:
    alone = plan.alone
    query = MomentQuery(dimension=alone.dimension, bound=alone.coordinate, norm=alone.norm)
    answers = yield AskAgents(query, at_once(int(ALONE * plan.count)))
    learned = discriminant(*averages(query, answers, alone.answering.mechanism))
    yield Progress("agents alone have learned from averages", {"asked": answers.asked})
    return [("agents alone", learned), ("constant -1", Constant(label=-1)), ("constant +1", Constant(label=1))]


def _compared(
    plan: PairsPlan, hypothesis: Hypothesis, rivals: list[tuple[str, Hypothesis]], t: int
) -> Generator[Any, Any, tuple[Verdict | None, list[TestedPair]]]:
    """Test the pair with each rival, until one of them is better or agents run out.

    Return the last test's verdict and the tested pairs; the last of these is the one that ended the comparison.
    """
    pairs: list[TestedPair] = []
    verdict: Verdict | None = None
    for name, rival in rivals:
        query = PairQuery(hypothesis=hypothesis, rival=rival)
        finding = yield from test_mean(query, plan.levels, plan.rounds * len(rivals))
        verdict, mean = finding.verdict, finding.estimate
        value, low, high = (2.0 * end - 1.0 for end in (mean.value, mean.low, mean.high))
        pairs.append(TestedPair(name, rival, value, low, high, mean.confidence))
        yield Progress(f"round {t}, against {name}: {value:+.4f}", {"asked": finding.asked})
        if verdict != "below":
            break
    return verdict, pairs
