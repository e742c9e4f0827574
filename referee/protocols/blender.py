"""Blender: the curator finds the frequent items, the agents say how frequent, both estimates are combined."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from common.core.arrays import Floats
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.queries.features import ItemQuery, ListedQuery
from common.local.queries.query import Answers, AskAgents
from common.operations.operation import CountedHead, HeadList
from common.protocols.base import AskCurator, Progress
from common.protocols.blender import Blender, HeadShares
from common.statistics.frequency import reports
from common.statistics.heavy_hitters import find, ladder
from referee.protocols.asking import ask, at_once
from referee.protocols.base import AS_PLANNED, BY_NORMAL_LAW, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script

Shares = tuple[Floats, Floats]  # estimated shares of people, and the variances of these estimates


@PROTOCOLS.register("blender")
class BlenderProtocol(ProblemProtocol[Blender]):
    """Head list and local search, as in BLENDER (Avent, Korolova, Zeber, Hovden and Livshits, USENIX Security 2017).

    One half of the curator's people choose the head list, the other half count its items (pure epsilon). The agents say
    which item of the list is theirs, or none, through a frequency oracle. The two independent unbiased estimates of
    each share are combined by inverse variance, the combination with the least variance. No answer of an agent costs
    more than its epsilon, whatever the list is.
    """

    title = "Blender"
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
        head = yield from list_head(plan)
        estimates = [shares_by_curator(head, plan)]
        if head.items:
            estimates.append((yield from shares_by_agents(head.items, problem, oracle, plan.count, public)))
        return combined(head.items, estimates)

    def curator_alone(self, plan: ProblemPlan[Blender], public: int) -> Script:
        head = yield from list_head(plan)
        return combined(head.items, [shares_by_curator(head, plan)])

    def agents_alone(self, plan: ProblemPlan[Blender], public: int) -> Script:
        """Have half of the agents find the items among all 2^bits, and the others estimate their shares.

        The search is one question without interaction (:mod:`common.statistics.heavy_hitters`).
        """
        problem, oracle = plan.problem, plan.oracle("olh, hadamard or krr")
        count = plan.count
        query = ItemQuery(bits=problem.bits, prefixes=ladder(problem.bits, oracle), public=public)
        answers: Answers = yield AskAgents(query, at_once(count // 2))
        items: list[int] = find(query, oracle, answers, plan.beta)[: problem.most].tolist()
        yield Progress(f"{len(items)} items are listed", {})
        if not items:
            return combined([], [])
        return combined(items, [(yield from shares_by_agents(items, problem, oracle, count - count // 2, public))])


def list_head(plan: ProblemPlan[Blender]) -> Generator[AskCurator | Progress, Any, CountedHead]:
    """Have the curator list the head."""
    head = yield from ask(HeadList(bits=plan.problem.bits, most=plan.problem.most, epsilon=plan.share))
    yield Progress(f"{len(head.items)} items are listed", {})
    return head


def shares_by_curator(head: CountedHead, plan: ProblemPlan[Blender]) -> Shares:
    """Estimate the share of each listed item from the curator's noisy counts."""
    shares = np.array(head.counts, dtype=np.int64) / head.people
    return shares, plan.problem.curators_variance(np.clip(shares, 0.0, 1.0), head.people, plan.share)


def shares_by_agents(
    items: Sequence[int], problem: Blender, oracle: FrequencyOracle, count: int, public: int
) -> Generator[AskAgents, Answers, Shares]:
    """Estimate the share of each listed item from the reports of ``count`` fresh agents."""
    query = ListedQuery(bits=problem.bits, items=tuple(items), public=public + 1)
    answers = yield AskAgents(query, at_once(count))
    reported = reports(query, answers)
    supports = reported.supports(oracle, np.arange(len(items), dtype=np.uint64))
    shares = oracle.shares(supports, len(reported), query.domain)
    return shares, problem.agents_variance(np.clip(shares, 0.0, 1.0), max(1, len(reported)), oracle, query.domain)


def combined(items: Sequence[int], estimates: list[Shares]) -> Outcome:
    """End with the items by decreasing share; estimates are weighed by their inverse variances."""
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
