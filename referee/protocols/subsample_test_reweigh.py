"""Subsample-Test-Reweigh: learn on the curator's sample, test on the population, reweigh, repeat.

R. Kohen and O. Sheffet, "Transfer Learning in Differential Privacy's Hybrid-Model", ICML 2022: Algorithm 2, with
Algorithm 3 as its learner Algorithm 4, with null mechanisms Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from common.core.errors import BadScenario
from common.local.hypotheses.composed import Task
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.losses import Loss
from common.local.queries.query import LossQuery
from common.operations.operation import Learn, Reweigh
from common.protocols.base import Progress, pattern_of
from common.scenario.scenario import ResolvedScenario
from referee.protocols.asking import EstimatePlan, JudgingScript, LevelTestPlan, ask, estimate_mean, test_mean
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script


@PROTOCOLS.register("subsample-test-reweigh")
class SubsampleTestReweigh(Protocol):
    """Find a hypothesis with a small loss on the population T from a biased sample of S.

    *Realizable* (Theorem 4.3): halt at the first hypothesis whose loss on T is shown to be below the upper level; every
    reweigh is by a hypothesis whose loss on T is shown to be above the lower level, so with probability 1 - 3 beta one
    of the first T rounds halts. *Agnostic* (no theorem; docs/corrections.md, K11): use every round, return the best by
    its upper confidence limit, which holds for all rounds together. Out of rounds or agents: ``exhausted``, and the
    best. With mechanism ``none`` and kappa null it is Algorithm 1: the agents' test is the SQ oracle, and its tolerance
    tau is half the distance of the two levels.
    """

    title = "Subsample-Test-Reweigh"
    tests_level = True
    done = (
        "the agents' test has rejected that the loss on T is {level} or more among those who answer; with probability "
        "{beta} at most a run rejects this although it is true, over all its rounds"
    )
    pattern = pattern_of("subsample-test-reweigh")
    supports_byzantine_agents = True

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan = RoundsPlan.of(scenario)
        return (yield from run_rounds(plan, None, 1, plan.rounds))


@dataclass(frozen=True)
class RoundsPlan:
    """The numbers of a resolved scenario that Algorithm 2 uses.

    At most T, ``rounds``, learner calls; agents test ``loss`` by ``judging``: levels where the run halts at the first
    good hypothesis (realizable), else an estimate a round, of ``share`` agents each.
    """

    rounds: int
    loss: Loss
    judging: LevelTestPlan | EstimatePlan
    share: int

    @classmethod
    def of(cls, scenario: ResolvedScenario) -> RoundsPlan:
        """Return the scenario's; BadScenario if agents are too few for its rounds, or cannot be asked so."""
        rounds, count = scenario.curator.rounds, scenario.agents.count
        realizable = scenario.mode == "realizable"
        if not realizable and count < rounds:
            raise BadScenario(f"agnostic: {rounds} rounds ask agents in each, agents.count is {count}")
        judging = LevelTestPlan.of(scenario) if realizable else EstimatePlan.of(scenario)
        return cls(rounds, scenario.agents.loss, judging, count // rounds)

    @property
    def halts(self) -> bool:
        return isinstance(self.judging, LevelTestPlan)

    def judge(self, hypothesis: Hypothesis) -> JudgingScript:
        """Ask fresh agents about a hypothesis's loss, in one of ``rounds`` tests or estimates."""
        query = LossQuery(hypothesis=hypothesis, loss=self.loss)
        if isinstance(self.judging, LevelTestPlan):
            return test_mean(query, self.judging, self.rounds)
        return estimate_mean(query, self.judging, self.share, self.rounds)


def run_rounds(plan: RoundsPlan, task: Task | None, first: int, last: int) -> Script:
    """Algorithm 2 in the rounds ``first`` to ``last``, from whatever weights the curator has then.

    The outcome's ``iterations`` is the number of the last round that was used.
    """
    rounds = plan.rounds
    best, least = None, math.inf
    for t in range(first, last + 1):
        learn = Learn(round=t, task=task)
        hypothesis = learn.about_records((yield from ask(learn)))
        found = yield from plan.judge(hypothesis)
        numbers = {"round": t, "rounds": rounds, "asked": found.asked, **found.estimate.wire(), **found.test}
        yield Progress(f"round {t}", numbers)
        reason = f"all {rounds} rounds were used"
        ended = Outcome("exhausted", t, hypothesis, found.estimate, reason, summary=found.summary)
        if best is None or found.estimate.high < least:
            best, least = ended, found.estimate.high
        if found.verdict == "below":
            return replace(ended, status="done", reason=f"the loss on T is shown to be below the level after round {t}")
        if plan.halts and found.verdict is None:
            return best.ended(t, f"all agents were asked by round {t}{_of_first(best, t)}")
        if t < last:
            yield from ask(Reweigh(hypothesis=hypothesis))
    if best is None:
        raise AssertionError("there is at least one round")
    return best.ended(last, best.reason + _of_first(best, last))


def _of_first(best: Outcome, last: int) -> str:
    return "; the answer is the first round's, which nothing had reweighed" if best.iterations == 1 < last else ""


@PROTOCOLS.register("hand-over")
class HandOver(Protocol):
    """Subsample-Test-Reweigh for each of the scenario's tasks in turn; the curator's weights are never reset.

    *Privacy.* All tasks' learner calls are made on the same people, so they share the curator's budget and its
    ``rounds``; every call is charged at the number of reweighs that came before it, whatever task they were for. The
    log-weight of a record is a function of the record and of public messages, so the sampling bound holds for any
    sequence of public hypotheses about any labels.

    *Rounds.* m tasks take floor(K/(2 g^2)) + m rounds, where m separate runs may take m times floor(K/(2 g^2)) + 1,
    with probability 1 - 3 beta, if ``vc_dimension`` is that of the union of all tasks' losses. docs/hand-over.md has
    the proofs, and what they do not say.

    A task's accepted hypothesis is not reweighed by, as Algorithm 2 does not. A task that runs out of rounds or agents
    ends the run: later ones are not begun. Agnostic (no theorem): each task gets an equal share of the rounds.
    """

    title = "Hand-over"
    tests_level = True
    done = (
        "for each task the agents' test has rejected that the loss on T is {level} or more among those who answer; "
        "with probability {beta} at most a run rejects this although it is true, over all its tasks and rounds"
    )
    pattern = pattern_of("hand-over")
    small = ("protocol=hand-over",)

    def script(self, scenario: ResolvedScenario, public: int) -> Script:
        plan, tasks = RoundsPlan.of(scenario), scenario.tasks or (None,)
        rounds = plan.rounds
        ended: list[Outcome] = []
        used = 0
        for number, task in enumerate(tasks, start=1):
            if used == rounds or (ended and plan.halts and ended[-1].status != "done"):
                break
            last = rounds if plan.halts else max(used + 1, rounds * number // len(tasks))
            outcome = yield from run_rounds(plan, task, used + 1, last)
            ended.append(outcome.ended(outcome.iterations - used, outcome.reason))
            used = outcome.iterations
            yield Progress(f"task {number} of {len(tasks)}: {outcome.status}, {outcome.reason}", {})
        final = ended[-1]
        if len(ended) < len(tasks) and final.status == "done":
            reason = f"all {rounds} rounds were used before task {len(ended) + 1}"
            return Outcome("exhausted", used, final.answer, final.estimate, reason, tuple(ended))
        return Outcome(final.status, used, final.answer, final.estimate, final.reason, tuple(ended))
