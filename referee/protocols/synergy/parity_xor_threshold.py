"""Parity XOR threshold: learned from both sides without any interaction."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, ValidationError

from common.core.errors import BadScenario, PeerMisbehaved
from common.core.values import Value, explain
from common.planning.problems.parity_xor_threshold import shape
from common.scenario.problems.parity_xor_threshold import ParityXorThreshold, Piecewise
from common.scenario.scenario import Scenario
from common.statistics.cdf import estimate_cdf
from common.statistics.cdf_levels import ladder
from common.vocabulary.hypotheses.features import FeatureSet
from common.vocabulary.mechanisms.frequency import FrequencyOracle
from common.vocabulary.operations import LearnParities
from common.vocabulary.queries.item import ItemQuery
from common.vocabulary.steps import AskAgents, AskCurator, Together
from referee.protocols.asking import at_once
from referee.protocols.base import PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, together


class _Released(Value):
    parities: list[list[FeatureSet | None]] = Field(min_length=1)


@PROTOCOLS.register("parity-xor-threshold")
class ParityXorThresholdProtocol(Protocol):
    """Lemma 3.3 of Beimel, Korolova, Nissim, Sheffet and Stemmer, "The power of synergy in differential privacy".

    One step, in which every message leaves before any arrives. The curator sorts its people by y, divides them into K
    blocks, and learns a parity of (x, 1) in each (KLNRS at epsilon/K): on all blocks but the one with the threshold the
    threshold is constant, and the label a parity of (x, 1). The agents report prefixes of y, a frequency oracle each;
    from these the referee has the K - 1 quantiles of y, which are where the blocks end.

    *The curator alone* has its parities, and takes the blocks to be equally long. *The agents alone* have the
    quantiles, and no parity: they answer with the constant 1.
    """

    title = "Parity XOR threshold"
    problem = "parity-xor-threshold"
    pattern = together(curator("parities"), agents("item"))
    patterns_alone: ClassVar[dict[str, Pattern]] = {"curator": curator("parities"), "agents": agents("item")}

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
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

    def script(self, scenario: Scenario, public: int) -> Script:
        """Ask both sides at once, put the answers together."""
        problem, oracle = scenario.problem, scenario.agents.mechanism
        if not isinstance(problem, ParityXorThreshold) or not isinstance(oracle, FrequencyOracle):
            raise BadScenario("parity-xor-threshold needs its problem, and a frequency oracle: take hadamard")
        epsilon = scenario.curator.share
        parts, _ = shape(problem, epsilon, scenario.beta / 2.0)
        learn = AskCurator(
            LearnParities(
                features=problem.c, first=problem.c, bits=problem.b, blocks=problem.blocks, parts=parts,
                epsilon=epsilon, rule=problem.rule,
            )
        )  # fmt: skip
        query = ItemQuery(first=problem.c, bits=problem.b, prefixes=ladder(problem.b), public=public)
        ask = AskAgents(query, at_once(int(scenario.agents.count)))
        pieces: tuple[FeatureSet | None, ...] = ((problem.c,),) * problem.blocks
        cuts = [(number << problem.b) // problem.blocks for number in range(1, problem.blocks)]
        reason = "the agents are left out"
        if scenario.alone == "curator":
            pieces = _voted((yield learn), problem, parts)
        else:
            if scenario.alone == "agents":
                answers = yield ask
            else:
                release, answers = yield Together((learn, ask))
                pieces = _voted(release, problem, parts)
            cuts = np.sort(estimate_cdf(query, oracle, answers, problem.blocks - 1).cuts).tolist()
            reason = f"{answers.asked:,} agents say where the blocks end"
        return Outcome("done", 1, Piecewise(cuts=tuple(cuts), pieces=pieces), None, reason)


def _voted(release: dict[str, Any], problem: ParityXorThreshold, parts: int) -> tuple[FeatureSet | None, ...]:
    """Return the most frequent answer of each block, the earliest of several.

    Raises
    ------
    PeerMisbehaved
        If the curator released something else.
    """
    try:
        found = _Released.model_validate({"parities": release.get("parities")})
    except ValidationError as error:
        raise PeerMisbehaved(f"the curator released no parities: {explain(error)}") from None
    if len(found.parities) != parts or any(len(part) != problem.blocks for part in found.parities):
        raise PeerMisbehaved(f"the curator released no parities for {parts} parts of {problem.blocks} blocks each")
    if any(answer and answer[-1] > problem.c for part in found.parities for answer in part):
        raise PeerMisbehaved(f"the curator released a parity of more than {problem.c} features and a constant")
    votes = [
        Counter(part[block] for part in found.parities if part[block] is not None) for block in range(problem.blocks)
    ]
    return tuple(vote.most_common(1)[0][0] if vote else None for vote in votes)
