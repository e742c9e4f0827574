"""One side learns which secret or parity is wanted, the other one has it: two tasks of both sides in turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.local.hypotheses.composed import Task
from common.local.mechanisms.mechanism import BitMechanism
from common.local.queries.query import AskAgents
from common.protocols.base import AskCurator, Progress
from common.protocols.shared_secrets import OneOfManyParities, ParityChoosesSecret, Secret, WantedParity, number_of
from common.statistics.frequency import likeliest_parity, signed_shares
from referee.protocols.asking import ask_codes, learn_parity
from referee.protocols.base import AS_PLANNED, BY_NORMAL_LAW, PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script


@PROTOCOLS.register("parity-chooses-secret")
class ParityChoosesSecretProtocol(ProblemProtocol[ParityChoosesSecret]):
    """Lemma 5.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator learns r from x and <x, r> (KLNRS, pure epsilon); the referee passes it on; each agent then says one
    randomized bit about its share s_{r,t} of the secret that r names: <row, t> + s_{r,t}, Hadamard response with a
    sign. From these the referee decides every share, and adds them up. An agent's answer is epsilon-DP whatever r the
    referee sends: safe against a malicious one.
    """

    title = "Parity chooses secret"
    done = f"a secret; {BY_NORMAL_LAW}it is right with a probability of about {{sure}} {AS_PLANNED}"
    kind = ParityChoosesSecret
    small = (
        {"name": "parity-chooses-secret", "c": 3, "shares": 5, "secret": [0, 2]},
        "problem.c=3",
        "problem.shares=5",
    )

    def both_sides(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        which = yield from find_secret(plan.problem)
        if which is None:
            return none_answered(public)
        return (yield from release_secret(plan.problem, plan.bits, which, plan.count, public))

    def curator_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Have the curator learn r, and guess the answer.

        It has fewer people than there are shares: it knows nothing about the secret, even without privacy.
        """
        which = yield from find_secret(plan.problem)
        if which is None:
            return none_answered(public)
        return Outcome("done", 1, Secret(which=which, bit=public & 1), None, "guessed: a share is missing")

    def agents_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Search for r with half of the agents, which takes 2^c times as many (Lemma 5.2's lower bound).

        The others tell the shares of what was found.
        """
        problem, count = plan.problem, plan.count
        search = yield from ask_codes(count // 2, first=0, bits=problem.c, sign="label", public=public)
        which = likeliest_parity(search)
        yield Progress(f"secret {which} is wanted", {})
        return (yield from release_secret(problem, plan.bits, which, count - count // 2, public))


def find_secret(problem: ParityChoosesSecret) -> Generator[AskCurator | Progress, Any, int | None]:
    """Have the curator learn which secret is wanted; None if no block of its people answered."""
    parity = yield from learn_parity(Task(features=problem.c))
    if parity is None:
        return None
    which = number_of(parity.features, problem.c)
    yield Progress(f"secret {which} is wanted", {})
    return which


def release_secret(
    problem: ParityChoosesSecret, mechanism: BitMechanism, which: int, count: int, public: int
) -> Generator[AskAgents, Any, Outcome]:
    """Ask ``count`` agents for their shares of the secret with a number, add them up, and end."""
    sign = problem.c + problem.share_bits + which
    asked = yield from ask_codes(count, first=problem.c, bits=problem.share_bits, sign=sign, public=public)
    shares = signed_shares(asked, mechanism)[: problem.shares]
    bit = int(np.count_nonzero(shares < 0.0) & 1)
    reason = f"{problem.shares} shares from {sum(answers.asked for _, answers in asked):,} agents"
    return Outcome("done", 1, Secret(which=which, bit=bit), None, reason)


def none_answered(public: int) -> Outcome:
    """End with a guess."""
    return Outcome("exhausted", 1, Secret(which=0, bit=public & 1), None, "no block of the curator answered")


@PROTOCOLS.register("one-of-many-parities")
class OneOfManyParitiesProtocol(ProblemProtocol[OneOfManyParities]):
    """Lemma 4.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    Each agent says one randomized bit about (t, s_t), Hadamard response; those who hold no share answer with a fair
    coin, randomized like any other. For every t the referee takes the s with the largest estimate, adds them up, and
    asks the curator to learn the parity with that number (KLNRS, pure epsilon): records that are shares say 0 = 0.
    """

    title = "One of many parities"
    done = f"a parity; {BY_NORMAL_LAW}it is the wanted one with a probability of about {{sure}} {AS_PLANNED}"
    kind = OneOfManyParities
    small = (
        {"name": "one-of-many-parities", "c": 4, "d": 2, "shares": 5},
        "problem.c=4",
        "problem.d=2",
        "problem.shares=5",
    )

    def both_sides(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        which = yield from find_wanted(plan, plan.count, public)
        return (yield from learn_wanted(plan.problem, which))

    def curator_alone(self, plan: ProblemPlan[OneOfManyParities], public: int) -> Script:
        """Have the curator learn one parity at random.

        It has fewer people than there are shares, so it knows nothing about which parity is wanted, even without
        privacy, and not enough privacy for all.
        """
        return (yield from learn_wanted(plan.problem, public % (1 << plan.problem.d)))

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
    answer = WantedParity(which=which, features=None if parity is None else parity.features)
    if parity is None:
        return Outcome("exhausted", 1, answer, None, "no block of the curator answered")
    return Outcome("done", 1, answer, None, f"parity {which} was learned")
