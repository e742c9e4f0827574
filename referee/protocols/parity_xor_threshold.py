"""Parity XOR threshold: learned from both sides without any interaction."""

from __future__ import annotations

from collections import Counter

import numpy as np

from common.local.answers import Answers, AskAgents
from common.local.hypotheses.rules import FeatureSet
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.queries.item import ItemQuery
from common.operations.learning import BlockParities, LearnParities
from common.protocols.parity_xor_threshold import ParityXorThreshold, Piecewise, shape
from common.scenario.scenario import Scenario
from common.statistics.cdf import estimate_cdf, ladder
from referee.protocols.asking import ask, ask_together, at_once
from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script, small_problem

Pieces = tuple[FeatureSet | None, ...]
"""The parity of each block, None where nobody answered."""


@PROTOCOLS.register("parity-xor-threshold")
class ParityXorThresholdProtocol(ProblemProtocol[ParityXorThreshold]):
    """Lemma 3.3 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    One step, in which every message leaves before any arrives. The curator sorts its people by y, divides them into K
    blocks, and learns a parity of (x, 1) in each (KLNRS at epsilon/K): on all blocks but the one with the threshold the
    threshold is constant, and the label a parity of (x, 1). The agents report prefixes of y, a frequency oracle each;
    from these the referee has the K - 1 quantiles of y, which are where the blocks end.
    """

    title = "Parity XOR threshold"
    done = (
        "parities between thresholds; with probability {sure} at least they err on a share of {alpha} at most, at"
        " the sizes of the tight plan, for people as the problem describes them and if those who answer are like "
        "all"
    )
    kind = ParityXorThreshold

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (
            small_problem(
                "parity-xor-threshold",
                {"name": "parity-xor-threshold", "c": 4, "b": 6, "secret": [1, 2], "threshold": 20},
                "problem.c=4",
                "problem.b=6",
                "problem.blocks=4",
                "alpha=0.45",
                "agents.mechanism.epsilon=5",
            ),
        )

    def both_sides(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        problem, oracle = plan.problem, plan.oracle("hadamard")
        query = prefixes(problem, public)
        question = AskAgents(query, at_once(plan.count))
        learned, (answers,) = yield from ask_together(learn_blocks(plan), question)
        return pieced_together(problem, voted(learned), query, oracle, answers)

    def curator_alone(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        problem = plan.problem
        pieces = voted((yield from ask(learn_blocks(plan))))
        cuts = tuple((number << problem.b) // problem.blocks for number in range(1, problem.blocks))
        return Outcome("done", 1, Piecewise(cuts=cuts, pieces=pieces), None, "the agents are left out")

    def agents_alone(self, plan: ProblemPlan[ParityXorThreshold], public: int) -> Script:
        problem, oracle = plan.problem, plan.oracle("hadamard")
        query = prefixes(problem, public)
        answers: Answers = yield AskAgents(query, at_once(plan.count))
        return pieced_together(problem, ((problem.c,),) * problem.blocks, query, oracle, answers)


def learn_blocks(plan: ProblemPlan[ParityXorThreshold]) -> LearnParities:
    """Return the request for a parity in each block, from several parts of the people."""
    problem = plan.problem
    epsilon = plan.share
    parts, _ = shape(problem, epsilon, plan.beta / 2.0)
    return LearnParities(
        features=problem.c,
        first=problem.c,
        bits=problem.b,
        blocks=problem.blocks,
        parts=parts,
        epsilon=epsilon,
        rule=problem.rule,
    )


def voted(learned: BlockParities) -> Pieces:
    """Return the most frequent answer of each block, the earliest of several."""
    votes = [Counter(answer for answer in block if answer is not None) for block in zip(*learned.parities, strict=True)]
    return tuple(vote.most_common(1)[0][0] if vote else None for vote in votes)


def prefixes(problem: ParityXorThreshold, public: int) -> ItemQuery:
    """Return the query for prefixes of y."""
    return ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)


def pieced_together(
    problem: ParityXorThreshold, pieces: Pieces, query: ItemQuery, oracle: FrequencyOracle, answers: Answers
) -> Outcome:
    """End with a parity between any two quantiles of y, which follow from the agents' reports of its prefixes."""
    cuts = np.sort(estimate_cdf(query, oracle, answers, problem.blocks - 1).cuts).tolist()
    reason = f"{answers.asked:,} agents say where the blocks end"
    return Outcome("done", 1, Piecewise(cuts=tuple(cuts), pieces=pieces), None, reason)
