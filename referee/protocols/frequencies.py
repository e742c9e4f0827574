"""Tasks about frequencies: in one, both sides together are no better than either alone; in two, they are better."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from common.core.arrays import Floats
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import Laplace
from common.local.queries.features import CoordinateQuery, ItemQuery, ListedQuery
from common.local.queries.query import Answers, AskAgents
from common.numerics.randomness import RandomSource
from common.operations.operation import Count, CountedHead, HeadList, Select
from common.protocols.base import AskCurator, Progress
from common.protocols.frequencies import (
    Blender,
    Decision,
    HeadShares,
    HypothesisTesting,
    Selected,
    SelectThenEstimate,
    SideEvidence,
)
from common.statistics.frequency import reports
from common.statistics.heavy_hitters import find, ladder
from common.statistics.intervals import Estimate
from referee.protocols.asking import EstimatePlan, ask, at_once, estimate_mean, means_by_slot
from referee.protocols.base import AS_PLANNED, BY_NORMAL_LAW, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script


@PROTOCOLS.register("hypothesis-testing")
class HypothesisTestingProtocol(ProblemProtocol[HypothesisTesting]):
    """Decide which of two public laws people follow: Section 6 of "The power of synergy" (Beimel et al. 2019).

    The curator releases a noisy count, the agents a randomized bit each; the referee adds up both sides' log-likelihood
    ratios.

    *Theorem 6.2.* If a hybrid protocol is right with probability 1/2 + g under both laws, one of the sides alone is
    right with 1/2 + g/4: :func:`_decided_alone` runs its proof.
    """

    done = f"a decision; {BY_NORMAL_LAW}it is wrong with a probability of about {{beta}} {AS_PLANNED}"
    kind = HypothesisTesting
    small = ({"name": "biased-coins", "d": 1, "biased": [0], "rates": [0.7]}, "problem.bias=0.4", "beta=0.001")

    def both_sides(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        at_once(plan.count, alike=True)  # refused before the curator spends anything
        counted = yield from _curator_evidence(plan)
        answered = yield from _agents_evidence(plan)
        return _decided_by(counted, answered)

    def curator_alone(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        counted = yield from _curator_evidence(plan)
        return _decided_alone(plan, public, counted, _simulated_agents, 0)

    def agents_alone(self, plan: ProblemPlan[HypothesisTesting], public: int) -> Script:
        answered = yield from _agents_evidence(plan)
        return _decided_alone(plan, public, answered, _simulated_curator, 1)


def _curator_evidence(plan: ProblemPlan[HypothesisTesting]) -> Generator[AskCurator, Any, SideEvidence]:
    first, *more = plan.problem.telling
    counted = yield from ask(Count(feature=first, more=tuple(more), epsilon=plan.share))
    return plan.problem.counted(counted.count, plan.n, plan.share)


def _agents_evidence(plan: ProblemPlan[HypothesisTesting]) -> Generator[AskAgents, Answers, SideEvidence]:
    first, *more = plan.problem.telling
    answers = yield AskAgents(CoordinateQuery(first=first, more=tuple(more)), plan.count)
    ones = int(answers.values.sum(dtype="int64"))
    return plan.problem.evidence_of_answers(ones, len(answers.values), plan.bits.truth)


def _decided_by(*sides: SideEvidence) -> Outcome:
    return _decided(int(sum(side.score for side in sides) > 0.0), "by the likelihood ratio")


def _decided(world: int, reason: str) -> Outcome:
    return Outcome("done", 1, Decision(world=world), None, reason)


def _decided_alone(
    plan: ProblemPlan[HypothesisTesting],
    public: int,
    evidence: SideEvidence,
    simulated: Callable[[ProblemPlan[HypothesisTesting], RandomSource], SideEvidence],
    world: int,
) -> Outcome:
    """End with one side's evidence; with the reduction, simulate the other side, or answer ``world`` at once."""
    if not plan.problem.reduction:
        return _decided_by(evidence)
    coins = RandomSource.seeded(public, "reduction")
    if coins.derive("at once").uniforms(1)[0] < (0.5 - plan.beta) / 2.0:
        return _decided(world, "answered at once, as the reduction does")
    return _decided_by(evidence, simulated(plan, coins))


def _simulated_agents(plan: ProblemPlan[HypothesisTesting], coins: RandomSource) -> SideEvidence:
    problem, mechanism = plan.problem, plan.bits
    count = int(problem.plan(plan, False)["agents"].rule or 0)
    bits = coins.derive("people").bernoullis(problem.chances[1], count)
    answered = mechanism.randomize(bits, coins.derive("noise"))
    return problem.evidence_of_answers(int(answered.sum(dtype="int64")), count, mechanism.truth)


def _simulated_curator(plan: ProblemPlan[HypothesisTesting], coins: RandomSource) -> SideEvidence:
    n, share = plan.n, plan.share
    ones = int(coins.derive("people").bernoullis(plan.problem.chances[0], n).sum(dtype="int64"))
    noise = int(Laplace(epsilon=share).noise(1, coins.derive("noise"))[0])
    return plan.problem.counted(ones + noise, n, share)


@PROTOCOLS.register("select-then-estimate")
class SelectThenEstimateProtocol(ProblemProtocol[SelectThenEstimate]):
    """Select a feature with a large mean and estimate it: Appendix B of "The power of synergy" (Beimel et al. 2019).

    The curator selects by the exponential mechanism: n of order log d/alpha^2 suffices, where the local model needs d
    log d/alpha^2 without interaction. Fresh agents each report the selected feature with randomized response: about
    1/alpha'^2 of them suffice for the finer accuracy alpha', which the curator's few people cannot give.
    """

    done = (
        "a feature and its mean; with probability {sure} at least the mean is within {alpha} of the largest one, and "
        f"estimated within problem.precise, {AS_PLANNED}"
    )
    kind = SelectThenEstimate
    small = (
        {"name": "biased-coins", "d": 10, "biased": [3, 7], "rates": [0.9, 0.5]},
        "problem.d=10",
        "problem.precise=0.15",
        "alpha=0.3",
    )

    def both_sides(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        count = at_once(plan.count, alike=True)  # refused before the curator spends anything
        feature = yield from _select(plan)
        answers = EstimatePlan(plan.bits, plan.beta)
        finding = yield from estimate_mean(CoordinateQuery(first=feature), answers, count, 1, once=False)
        return _ended(feature, finding.estimate.value, finding.estimate, f"{finding.asked:,} agents were asked")

    def curator_alone(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        feature = yield from _select(plan)
        counted = yield from ask(Count(feature=feature, epsilon=plan.share))
        share = float(np.clip(counted.count / plan.n, 0.0, 1.0))
        return _ended(feature, share, None, "the curator counted what it had selected")

    def agents_alone(self, plan: ProblemPlan[SelectThenEstimate], public: int) -> Script:
        """Ask each agent, in one round, for the feature of its slot.

        The feature with the largest estimate is selected; its estimate comes from the agents who were asked about it.
        """
        d = plan.problem.d
        answers: Answers = yield AskAgents(CoordinateQuery(first=0, count=d), at_once(plan.count))
        shares, _ = means_by_slot(answers, plan.bits, d, 0.0)
        feature = int(np.argmax(shares))
        share = float(np.clip(shares[feature], 0.0, 1.0))
        return _ended(feature, share, None, f"{answers.asked:,} agents were asked a feature each")


def _select(plan: ProblemPlan[SelectThenEstimate]) -> Generator[AskCurator | Progress, Any, int]:
    selected = yield from ask(Select(count=plan.problem.d, epsilon=plan.share))
    yield Progress(f"the curator selects feature {selected.feature}", {})
    return selected.feature


def _ended(feature: int, share: float, estimate: Estimate | None, reason: str) -> Outcome:
    """End with a feature, and its mean in [-1, 1] for the share of people who have it."""
    return Outcome("done", 1, Selected(feature=feature, mean=2.0 * share - 1.0), estimate, reason)


Shares = tuple[Floats, Floats]  # estimated shares of people, and the variances of these estimates


@PROTOCOLS.register("blender")
class BlenderProtocol(ProblemProtocol[Blender]):
    """Head list and local search, as in BLENDER (Avent, Korolova, Zeber, Hovden and Livshits, USENIX Security 2017).

    One half of the curator's people choose the head list, the other half count its items (pure epsilon). The agents
    report which item of the list is theirs, or none, through a frequency oracle. The two independent unbiased estimates
    of each share are combined with inverse-variance weights, which give the least variance. No answer of an agent costs
    more than its epsilon, whatever the list is.
    """

    done = (
        f"a list; {BY_NORMAL_LAW}it holds every item as frequent as problem.heavy, with shares that are off by "
        f"problem.precise at most, with a probability of about {{sure}} {AS_PLANNED}"
    )
    kind = Blender
    small = (
        {"name": "zipf-items", "b": 10, "items": 4, "power": 1.0},
        "problem.bits=10",
        "problem.most=6",
        "problem.heavy=0.2",
        "problem.precise=0.15",
        "agents.mechanism.epsilon=2",
    )

    def both_sides(self, plan: ProblemPlan[Blender], public: int) -> Script:
        problem, oracle = plan.problem, plan.oracle("olh, hadamard or krr")
        count = at_once(plan.count)  # refused before the curator spends anything
        head = yield from _list_head(plan)
        estimates = [_shares_by_curator(head, plan)]
        if head.items:
            estimates.append((yield from _shares_by_agents(head.items, problem, oracle, count, public)))
        return _combined(head.items, estimates)

    def curator_alone(self, plan: ProblemPlan[Blender], public: int) -> Script:
        head = yield from _list_head(plan)
        return _combined(head.items, [_shares_by_curator(head, plan)])

    def agents_alone(self, plan: ProblemPlan[Blender], public: int) -> Script:
        """Have half of the agents find the items among all 2^bits, and the others estimate their shares.

        The search is one question without interaction (:mod:`common.statistics.heavy_hitters`).
        """
        problem, oracle = plan.problem, plan.oracle("olh, hadamard or krr")
        half = plan.count // 2
        rest = at_once(plan.count - half)  # no fewer than that half: refused before anybody is asked
        query = ItemQuery(bits=problem.bits, prefixes=ladder(problem.bits, oracle), public=public)
        answers: Answers = yield AskAgents(query, half)
        items: list[int] = find(query, oracle, answers, plan.beta)[: problem.most].tolist()
        yield Progress(f"{len(items)} items are listed", {})
        if not items:
            return _combined([], [])
        return _combined(items, [(yield from _shares_by_agents(items, problem, oracle, rest, public))])


def _list_head(plan: ProblemPlan[Blender]) -> Generator[AskCurator | Progress, Any, CountedHead]:
    head = yield from ask(HeadList(bits=plan.problem.bits, most=plan.problem.most, epsilon=plan.share))
    yield Progress(f"{len(head.items)} items are listed", {})
    return head


def _shares_by_curator(head: CountedHead, plan: ProblemPlan[Blender]) -> Shares:
    shares, ratio = np.array(head.counts, dtype=np.int64) / head.people, plan.problem.noise(plan.share).ratio
    within = np.clip(shares, 0.0, 1.0)
    noise = 2.0 * ratio / ((1.0 - ratio) * head.people) ** 2
    return shares, np.asarray(within * (1.0 - within) / head.people + noise)


def _shares_by_agents(
    items: Sequence[int], problem: Blender, oracle: FrequencyOracle, count: int, public: int
) -> Generator[AskAgents, Answers, Shares]:
    query = ListedQuery(bits=problem.bits, items=tuple(items), public=public + 1)
    answers = yield AskAgents(query, count)
    reported = reports(query, answers)
    supports = reported.supports(oracle, np.arange(len(items), dtype=np.uint64))
    shares = oracle.shares(supports, len(reported), query.domain)
    return shares, problem.agents_variance(np.clip(shares, 0.0, 1.0), max(1, len(reported)), oracle, query.domain)


def _combined(items: Sequence[int], estimates: list[Shares]) -> Outcome:
    """End with the items by decreasing share; estimates are weighted by their inverse variances."""
    head = HeadShares(items=(), shares=(), deviations=())
    if items:
        weights = np.array([1.0 / variances for _, variances in estimates])
        shares = (weights * np.array([shares for shares, _ in estimates])).sum(axis=0) / weights.sum(axis=0)
        deviations = np.sqrt(1.0 / weights.sum(axis=0))
        order = np.argsort(-shares, kind="stable")
        head = HeadShares(
            items=tuple(items[place] for place in order),
            shares=tuple(shares[order].tolist()),
            deviations=tuple(deviations[order].tolist()),
        )
    return Outcome("done", 1, head, None, f"{len(items)} items are listed")
