"""Parity chooses secret: the curator learns a parity, and the agents tell the shares of the secret that it names."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from common.local.answers import AskAgents
from common.local.hypotheses.relabelled import Task
from common.local.mechanisms.mechanism import BitMechanism
from common.protocols.parity_chooses_secret import ParityChoosesSecret, Secret, number_of
from common.protocols.steps import Progress
from common.scenario.scenario import Scenario
from common.statistics.frequency import likeliest_parity, signed_shares
from referee.protocols.asking import ask_codes, learn_parity
from referee.protocols.base import PROTOCOLS, Outcome, ProblemPlan, ProblemProtocol, Script, small_problem


@PROTOCOLS.register("parity-chooses-secret")
class ParityChoosesSecretProtocol(ProblemProtocol[ParityChoosesSecret]):
    """Lemma 5.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator learns r from x and <x, r> (KLNRS, pure epsilon); the referee passes it on; each agent then says one
    randomized bit about its share s_{r,t} of the secret that r names: <row, t> + s_{r,t}, Hadamard response with a
    sign. From these the referee decides every share, and adds them up. An agent's answer is epsilon-DP whatever r the
    referee sends: safe against a malicious one.
    """

    title = "Parity chooses secret"
    done = (
        "a secret; by the normal law, which is no bound, it is right with a probability of about {sure} at the "
        "sizes of the tight plan, for people as the problem describes them and if those who answer are like all"
    )
    kind = ParityChoosesSecret

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        return (
            small_problem(
                "parity-chooses-secret",
                {"name": "parity-chooses-secret", "c": 3, "shares": 5, "secret": [0, 2]},
                "problem.c=3",
                "problem.shares=5",
            ),
        )

    def both_sides(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        problem, mechanism = plan.problem, plan.bits
        parity = yield from learn_parity(Task(features=problem.c))
        if parity is None:
            return none_answered(public)
        which = number_of(parity.features, problem.c)
        yield Progress(f"secret {which} is wanted", {})
        return (yield from release_secret(problem, mechanism, which, plan.count, public))

    def curator_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Have the curator learn r, and guess the answer.

        It has fewer people than there are shares: it knows nothing about the secret, even without privacy.
        """
        problem = plan.problem
        parity = yield from learn_parity(Task(features=problem.c))
        if parity is None:
            return none_answered(public)
        which = number_of(parity.features, problem.c)
        yield Progress(f"secret {which} is wanted", {})
        return Outcome("done", 1, Secret(which=which, bit=public & 1), None, "guessed: a share is missing")

    def agents_alone(self, plan: ProblemPlan[ParityChoosesSecret], public: int) -> Script:
        """Search for r with half of the agents, which takes 2^c times as many (Lemma 5.2's lower bound).

        The others tell the shares of what was found.
        """
        problem, mechanism = plan.problem, plan.bits
        count = plan.count
        search = yield from ask_codes(count // 2, first=0, bits=problem.c, sign="label", public=public)
        which = likeliest_parity(search)
        yield Progress(f"secret {which} is wanted", {})
        return (yield from release_secret(problem, mechanism, which, count - count // 2, public))


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
