"""One of many parities: the agents tell which one is wanted, the curator learns it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from common.core.errors import BadScenario
from common.scenario.problems.one_of_many_parities import OneOfManyParities, Wanted
from common.scenario.scenario import Scenario
from common.statistics.codes import likeliest_parity, signed_shares
from common.vocabulary.operations import Learn
from common.vocabulary.steps import AskCurator, Progress
from common.vocabulary.tasks import Task
from referee.protocols.asking import ask_codes
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script, learned_parity
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, sequence, some


@PROTOCOLS.register("one-of-many-parities")
class OneOfManyParitiesProtocol(Protocol):
    """Lemma 4.2 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    Each agent says one randomized bit about (t, s_t), Hadamard response; those who hold no share answer with a fair
    coin, randomized like any other. For every t the referee takes the s with the largest estimate, adds them up, and
    asks the curator to learn the parity with that number (KLNRS, pure epsilon): records that are shares say 0 = 0.

    *The curator alone* has fewer people than there are shares, so it knows nothing about which parity is wanted, even
    without privacy, and not enough privacy for all: it learns one at random. *The agents alone*: half of them tell
    which one is wanted, the others search for it, which takes 2^c times as many.
    """

    title = "One of many parities"
    problem = "one-of-many-parities"
    pattern = sequence(some(agents("code")), curator("learn"))
    patterns_alone: ClassVar[dict[str, Pattern]] = {"curator": curator("learn"), "agents": some(agents("code"))}

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "one-of-many-parities",
                {"name": "one-of-many-parities", "c": 4, "d": 2, "shares": 5},
                "problem.c=4",
                "problem.d=2",
                "problem.shares=5",
            ),
        )

    def script(self, scenario: Scenario, public: int) -> Script:
        """Find out which parity is wanted, then learn it."""
        problem, count = scenario.problem, int(scenario.agents.count)
        if not isinstance(problem, OneOfManyParities):
            raise BadScenario("one-of-many-parities needs its problem")
        which = public % (1 << problem.d)
        if scenario.alone != "curator":
            asking = count if scenario.alone is None else count // 2
            begin = problem.c + (1 << problem.d)
            bits = problem.share_bits + problem.d
            asked = yield from ask_codes(asking, first=begin + 1, bits=bits, present=begin, public=public)
            shares = signed_shares(asked, scenario.agents.bit_mechanism).reshape(-1, 1 << problem.d)[: problem.shares]
            which = int(np.bitwise_xor.reduce(np.argmax(shares, axis=1)))
            told = sum(answers.asked for _, answers in asked)
            yield Progress(f"{told:,} agents say that parity {which} is wanted", {})
        if scenario.alone == "agents":
            search = yield from ask_codes(
                count - count // 2, first=0, bits=min(problem.c, 63), sign=problem.c + which, public=public
            )
            found = likeliest_parity(search)
            features = tuple(i for i in range(problem.c) if (found << i) & (1 << (min(problem.c, 63) - 1)))
            return Outcome("done", 1, Wanted(which=which, features=features), None, "searched by the agents")
        release = yield AskCurator(Learn(round=1, task=Task(features=problem.c, label=problem.c + which)))
        parity = learned_parity(release, problem.c)
        if parity is None:
            return Outcome("exhausted", 1, Wanted(which=which, features=None), None, "no block of the curator answered")
        answer = Wanted(which=which, features=parity.features)
        return Outcome("done", 1, answer, None, f"parity {which} was learned")
