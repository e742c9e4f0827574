"""Blender: the curator finds the frequent items, the agents say how frequent, both estimates are combined."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, ValidationError

from common.core.arrays import Floats, Indices
from common.core.errors import BadScenario, PeerMisbehaved
from common.core.values import Value, explain
from common.scenario.problems.blender import Blender, Head
from common.scenario.scenario import Scenario
from common.statistics.frequency import reports
from common.statistics.heavy_hitters import find, ladder
from common.vocabulary.mechanisms.frequency import FrequencyOracle
from common.vocabulary.operations import HeadList
from common.vocabulary.queries.item import ItemQuery
from common.vocabulary.queries.listed import ListedQuery
from common.vocabulary.steps import Answers, AskAgents, AskCurator, Progress
from referee.protocols.asking import at_once
from referee.protocols.base import MAX_WHOLE, PROTOCOLS, Outcome, Protocol, Script
from referee.protocols.examples import small_problem
from referee.protocols.patterns import Pattern, agents, curator, maybe, sequence

Found = tuple[Floats, Floats]
"""Shares and their variances."""


class _Released(Value):
    items: list[Annotated[int, Field(ge=0)]]
    counts: list[Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE)]]
    people: int = Field(ge=1, le=MAX_WHOLE)


@PROTOCOLS.register("blender")
class BlenderProtocol(Protocol):
    """Head list and local search, as in BLENDER (Avent, Korolova, Zeber, Hovden and Livshits, USENIX Security 2017).

    One half of the curator's people choose the head list, the other half count its items (pure epsilon). The agents say
    which item of the list is theirs, or none, through a frequency oracle. The two independent unbiased estimates of
    each share are combined by inverse variance, the combination with the least variance. No answer of an agent costs
    more than its epsilon, whatever the list is.

    *The curator alone* has its own counts. *The agents alone* find the items among all 2^bits with half of them, by one
    question without interaction (:mod:`common.statistics.heavy_hitters`), and estimate with the others.
    """

    title = "Blender"
    problem = "blender"
    pattern = sequence(curator("head"), maybe(agents("listed")))
    patterns_alone: ClassVar[dict[str, Pattern]] = {
        "curator": curator("head"),
        "agents": sequence(agents("item"), maybe(agents("listed"))),
    }

    @classmethod
    def example(cls) -> tuple[Scenario, ...]:
        """Return its shipped scenario made small."""
        return (
            small_problem(
                "blender",
                {"name": "zipf-items", "b": 10, "items": 4, "power": 1.0},
                "problem.bits=10",
                "problem.most=6",
                "problem.heavy=0.2",
                "problem.precise=0.15",
                "agents.mechanism.epsilon=2",
            ),
        )

    def script(self, scenario: Scenario, public: int) -> Script:
        """Find the list, estimate its shares, combine."""
        problem, oracle, count = scenario.problem, scenario.agents.mechanism, int(scenario.agents.count)
        if not isinstance(problem, Blender) or not isinstance(oracle, FrequencyOracle):
            raise BadScenario("blender needs its problem, and a frequency oracle: take olh, hadamard or krr")
        found: list[Found] = []
        if scenario.alone == "agents":
            query = ItemQuery(bits=problem.bits, prefixes=ladder(problem.bits, oracle), public=public)
            answers: Answers = yield AskAgents(query, at_once(count // 2))
            items = find(query, oracle, answers, scenario.beta).items[: problem.most].tolist()
            count -= count // 2
        else:
            epsilon = scenario.curator.share
            release = yield AskCurator(HeadList(bits=problem.bits, most=problem.most, epsilon=epsilon))
            items, counts, people = _released(release, problem)
            shares = np.clip(counts / people, 0.0, 1.0)
            found.append((counts / people, problem.counted(shares, people, epsilon)))
        yield Progress(f"{len(items)} items are listed", {})
        if items and scenario.alone != "curator":
            found.append((yield from _asked(items, problem, oracle, count, public)))
        return Outcome("done", 1, _combined(items, found), None, f"{len(items)} items are listed")


def _asked(
    items: list[int], problem: Blender, oracle: FrequencyOracle, count: int, public: int
) -> Generator[AskAgents, Answers, Found]:
    query = ListedQuery(bits=problem.bits, items=tuple(items), public=public + 1)
    answers = yield AskAgents(query, at_once(count))
    told = reports(query, answers)
    supports = told.supports(oracle, np.arange(len(items), dtype=np.uint64))
    shares = oracle.shares(supports, len(told), query.domain)
    return shares, problem.told(np.clip(shares, 0.0, 1.0), max(1, len(told)), oracle, query.domain)


def _combined(items: list[int], found: list[Found]) -> Head:
    """Weigh the estimates by their inverse variances."""
    if not items:
        return Head(items=(), shares=(), deviations=())
    weights = np.array([1.0 / variances for _, variances in found])
    shares = (weights * np.array([shares for shares, _ in found])).sum(axis=0) / weights.sum(axis=0)
    deviations = np.sqrt(1.0 / weights.sum(axis=0))
    order = np.argsort(-shares, kind="stable")
    return Head(
        items=tuple(items[place] for place in order),
        shares=tuple(shares[order].tolist()),
        deviations=tuple(deviations[order].tolist()),
    )


def _released(release: dict[str, Any], problem: Blender) -> tuple[list[int], Indices, int]:
    """Return items, counts and people of a head list.

    Raises
    ------
    PeerMisbehaved
        If that is not what was released.
    """
    try:
        found = _Released.model_validate(
            {name: release.get(name) for name in ("items", "counts", "people")}, strict=True
        )
    except ValidationError as error:
        raise PeerMisbehaved(f"the curator released no head list: {explain(error)}") from None
    items = found.items
    if len(items) != len(found.counts) or len(set(items)) != len(items) or len(items) > problem.most:
        raise PeerMisbehaved(f"the curator released no head list: {len(items)} items, {len(found.counts)} counts")
    if any(item >> problem.bits for item in items):
        raise PeerMisbehaved(f"the curator listed what is no item of {problem.bits} bits")
    return items, np.array(found.counts, dtype=np.int64), found.people
