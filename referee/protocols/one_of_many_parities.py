"""One of many parities: the agents tell which one is wanted, the curator learns it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.local.answers import AskAgents
from common.local.hypotheses.relabelled import Task
from common.protocols.one_of_many_parities import OneOfManyParities, WantedParity
from common.protocols.steps import AskCurator, Progress
from common.scenario.scenario import Scenario
from common.statistics.frequency import likeliest_parity, signed_shares
from referee.protocols.asking import ask_codes, learn_parity
from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script, small_problem


@PROTOCOLS.register("one-of-many-parities")
class OneOfManyParitiesProtocol(ProblemProtocol[OneOfManyParities]):
    """Lemma 4.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    Each agent says one randomized bit about (t, s_t), Hadamard response; those who hold no share answer with a fair
    coin, randomized like any other. For every t the referee takes the s with the largest estimate, adds them up, and
    asks the curator to learn the parity with that number (KLNRS, pure epsilon): records that are shares say 0 = 0.
    """

    title = "One of many parities"
    done = (
        "a parity; by the normal law, which is no bound, it is the wanted one with a probability of about {sure} "
        "at the sizes of the tight plan, for people as the problem describes them and if those who answer are "
        "like all"
    )
    kind = OneOfManyParities

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (
            small_problem(
                "one-of-many-parities",
                {"name": "one-of-many-parities", "c": 4, "d": 2, "shares": 5},
                "problem.c=4",
                "problem.d=2",
                "problem.shares=5",
            ),
        )

    def both_sides(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        problem = plan.problem
        which = yield from find_wanted(plan, plan.count, public)
        return (yield from learn_wanted(problem, which))

    def curator_alone(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        """Have the curator learn one parity at random.

        It has fewer people than there are shares, so it knows nothing about which parity is wanted, even without
        privacy, and not enough privacy for all.
        """
        problem = plan.problem
        return (yield from learn_wanted(problem, public % (1 << problem.d)))

    def agents_alone(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        problem, count = plan.problem, plan.count
        which = yield from find_wanted(plan, count // 2, public)
        width = min(problem.c, 63)
        search = yield from ask_codes(count - count // 2, first=0, bits=width, sign=problem.c + which, public=public)
        found = likeliest_parity(search)
        features = tuple(i for i in range(problem.c) if (found << i) & (1 << (width - 1)))
        return Outcome("done", 1, WantedParity(which=which, features=features), None, "searched by the agents")


def find_wanted(
    plan: ProblemPlan[OneOfManyParities], count: int, public: int
) -> Generator[AskAgents | Progress, Any, int]:
    """Ask ``count`` agents for the shares of the wanted parity's number, and add up the likeliest."""
    problem = plan.problem
    begin = problem.c + (1 << problem.d)
    bits = problem.share_bits + problem.d
    asked = yield from ask_codes(count, first=begin + 1, bits=bits, present=begin, public=public)
    shares = signed_shares(asked, plan.bits).reshape(-1, 1 << problem.d)[: problem.shares]
    which = int(np.bitwise_xor.reduce(np.argmax(shares, axis=1)))
    count_asked = sum(answers.asked for _, answers in asked)
    yield Progress(f"{count_asked:,} agents say that parity {which} is wanted", {})
    return which


def learn_wanted(problem: OneOfManyParities, which: int) -> Generator[AskCurator, Any, Outcome]:
    """Have the curator learn the parity with a number, and end."""
    parity = yield from learn_parity(Task(features=problem.c, label=problem.c + which))
    if parity is None:
        return Outcome(
            "exhausted", 1, WantedParity(which=which, features=None), None, "no block of the curator answered"
        )
    answer = WantedParity(which=which, features=parity.features)
    return Outcome("done", 1, answer, None, f"parity {which} was learned")
