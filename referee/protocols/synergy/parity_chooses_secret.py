"""Parity chooses secret: the curator learns a parity, and the agents tell the shares of the secret that it names."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from common.core.errors import BadScenario
from common.scenario.problems.parity_chooses_secret import ParityChoosesSecret, Secret, number_of
from common.scenario.scenario import Scenario
from common.statistics.codes import likeliest_parity, signed_shares
from common.vocabulary.operations import Learn
from common.vocabulary.steps import AskCurator, Progress
from common.vocabulary.tasks import Task
from referee.protocols.asking import ask_codes
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, learned_parity
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, many, sequence, some


@PROTOCOLS.register("parity-chooses-secret")
class ParityChoosesSecretProtocol(Protocol):
    """Lemma 5.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    The curator learns r from x and <x, r> (KLNRS, pure epsilon); the referee passes it on; each agent then says one
    randomized bit about its share s_{r,t} of the secret that r names: <row, t> + s_{r,t}, Hadamard response with a
    sign. From these the referee decides every share, and adds them up. An agent's answer is epsilon-DP whatever r the
    referee sends: safe against a malicious one.

    *The curator alone* learns r, but has fewer people than there are shares: it knows nothing about the secret, even
    without privacy, and the answer is a guess. *The agents alone*: half of them search for r, which takes 2^c times as
    many (Lemma 5.2's lower bound); the others tell the shares of what was found.
    """

    title = "Parity chooses secret"
    problem = "parity-chooses-secret"
    pattern = sequence(curator("learn"), many(agents("code")))
    patterns_alone: ClassVar[dict[str, Pattern]] = {"curator": curator("learn"), "agents": some(agents("code"))}

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "parity-chooses-secret",
                {"name": "parity-chooses-secret", "c": 3, "shares": 5, "secret": [0, 2]},
                "problem.c=3",
                "problem.shares=5",
            ),
        )

    def script(self, scenario: Scenario, public: int) -> Script:
        """Learn which secret is wanted, then ask for its shares."""
        problem, mechanism = scenario.problem, scenario.agents.bit_mechanism
        if not isinstance(problem, ParityChoosesSecret):
            raise BadScenario("parity-chooses-secret needs its problem")
        count = int(scenario.agents.count)
        if scenario.alone == "agents":
            search = yield from ask_codes(count // 2, first=0, bits=problem.c, sign="label", public=public)
            which, count = likeliest_parity(search), count - count // 2
        else:
            release = yield AskCurator(Learn(round=1, task=Task(features=problem.c)))
            parity = learned_parity(release, problem.c)
            if parity is None:
                return Outcome(
                    "exhausted", 1, Secret(which=0, bit=public & 1), None, "no block of the curator answered"
                )
            which = number_of(parity.features, problem.c)
        yield Progress(f"secret {which} is wanted", {})
        if scenario.alone == "curator":
            return Outcome("done", 1, Secret(which=which, bit=public & 1), None, "guessed: a share is missing")
        sign = problem.c + problem.share_bits + which
        asked = yield from ask_codes(count, first=problem.c, bits=problem.share_bits, sign=sign, public=public)
        shares = signed_shares(asked, mechanism)[: problem.shares]
        bit = int(np.count_nonzero(shares < 0.0) & 1)
        reason = f"{problem.shares} shares from {sum(answers.asked for _, answers in asked):,} agents"
        return Outcome("done", 1, Secret(which=which, bit=bit), None, reason)
