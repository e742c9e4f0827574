"""The agents' side under audit: answers of a hosted population and of a single agent, to a malicious referee.

Every person of a hosted population has the same record here and answers on their own, so one question is as many
runs as there are people.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from common import messages
from common.arrays import AnyArray, Floats, Indices
from common.hypotheses.linear import Linear
from common.identity import Identity, Signed
from common.mechanisms.base import Mechanism, parse_mechanism
from common.packing import unpack_answers
from common.people import TableCrowd
from common.queries.base import Query
from common.queries.gradient import GradientQuery
from common.queries.loss import LossQuery
from common.randomness import RandomSource
from common.records import Records
from local_agent.answering import evaluate, randomize_one
from local_agent.policy import ALL_QUERIES, Policy
from local_agent.population import Population
from tests.audit.auditor import Subject
from tests.audit.case import Case

EPSILON = 1.0
REFEREE = Identity.create()
Person = tuple[float, float, int]
"""Two features and a label."""

ORDINARY: tuple[Person, Person] = ((0.5, 0.5, 1), (0.5, 0.5, -1))
EXTREME: tuple[Person, Person] = ((3e38, -3e38, 1), (0.0, 0.0, -1))
"""Features at the end of what they can be: with great weights, margins are infinite or not even numbers."""


def people(person: Person, count: int) -> Records:
    """Return as many people with one and the same record."""
    features = np.tile(np.array(person[:2], dtype=np.float32), (count, 1))
    return Records(features, np.full(count, person[2], dtype=np.int8))


class Resampling(Population):
    """Takes fresh randomness whenever it is asked, and forgets that it was asked before."""

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        for path in self._folder.iterdir():
            path.unlink()
        self._answered[:] = False
        self._source = self._source.derive("again")
        return super().answer(assignment, configuration)


class Interrupted(Population):
    """Loses power every time, after it wrote down whom it asked and before it stored their answers."""

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        for path in self._folder.glob("*.report"):
            path.unlink()
        return super().answer(assignment, configuration)


def lie(query: Query, records: Records, slots: Indices) -> Floats:
    """Evaluate to what is far outside of the range that every query promises, on either side."""
    return 1e3 * records.labels.astype(np.float64)


def hosted(
    query: Query,
    *,
    mechanism: str = "warner",
    kind: type[Population] = Population,
    times: int = 1,
    slots: int | None = None,
    lies: bool = False,
    clamps: bool = True,
) -> Subject:
    """One person a run: all the answers that they gave, as often as they were asked the same question."""
    parsed = parse_mechanism({"name": mechanism, "epsilon": EPSILON})
    configuration = messages.Configuration(
        run="audit",
        referee=REFEREE.public,
        scenario={"agents": {"mechanism": parsed.wire()}},
        order=({"first": 0, "agents": 1, "used": 0, "sha256": "0" * 64},),
    )

    def subject(person: Person, runs: int, source: RandomSource) -> AnyArray:
        everybody = np.arange(runs)
        asked = messages.Assignment(
            run="audit",
            digest=configuration.fingerprint(),
            question=0,
            query=query,
            people=messages.pack_indices(everybody),
            slots=messages.pack_indices(everybody if slots is None else np.full(runs, slots)),
        )
        signed = REFEREE.sign(asked.KIND, asked.wire())
        agreed = REFEREE.sign(configuration.KIND, configuration.wire())
        with tempfile.TemporaryDirectory() as folder, ExitStack() as broken:
            if lies:
                broken.enter_context(patch.object(type(query), "evaluate", lie))
            if not clamps:
                broken.enter_context(patch("local_agent.answering.evaluate", lambda q, r, s: q.evaluate(r, s)))
                broken.enter_context(patch("common.mechanisms.base.bounded", lambda values: values))
            policy = Policy(REFEREE.public, EPSILON, queries=ALL_QUERIES)
            population = kind(TableCrowd(people(person, runs)), policy, Path(folder), source)
            bodies = [population.answer(signed, agreed)[1] for _ in range(times)]
            population.close()
        return np.stack([unpack_answers(body, runs, parsed.answers)[1] for body in bodies], axis=1)

    return subject


def single(query: Query, mechanism: Mechanism) -> Subject:
    """One agent's answer a run, sampled by OpenDP (which takes no seed)."""

    def subject(person: Person, runs: int, source: RandomSource) -> AnyArray:
        slots = np.zeros(1, dtype=np.int64)
        value = evaluate(query, people(person, 1), slots)
        return np.array([randomize_one(query, value, mechanism, slots, source) for _ in range(runs)])

    return subject


def case(name: str, inputs: tuple[Person, Person], honest: Subject, least: float, **rest: Any) -> Case:
    """Return a case that claims :data:`EPSILON`, purely."""
    return Case(name, EPSILON, inputs, honest, **{"runs": 100_000, "least": least, **rest})


def cases() -> list[Case]:
    """Return every case of the agents' side."""
    loss = LossQuery(hypothesis=Linear(weights=(1.0, 1.0), threshold=0.0))
    great = LossQuery(hypothesis=Linear(weights=(1e30, 1e30), threshold=-1e30))
    steep = GradientQuery(hypothesis=Linear(weights=(-1e30, 1e30), threshold=1e30), bound=1e-300)
    gentle = GradientQuery(hypothesis=Linear(weights=(0.0, 0.0), threshold=0.0), bound=1.0)
    warner = parse_mechanism({"name": "warner", "epsilon": EPSILON})
    again = {"fresh randomness on every retry": hosted(loss, kind=Resampling, times=2)}
    unclamped = {"values that nobody clamped": hosted(gentle, lies=True, clamps=False)}
    return [
        case("an answer", ORDINARY, hosted(loss), 0.9),
        case("an answer, laplace", ORDINARY, hosted(loss, mechanism="laplace"), 0.8),
        case("an answer, real value", ORDINARY, hosted(gentle, slots=2), 0.3),
        case("a repeated question", ORDINARY, hosted(loss, times=2), 0.9, twins=again),
        case("a question after a crash", ORDINARY, hosted(loss, kind=Interrupted, times=2), 0.9, twins=again),
        case("a query that lies", ORDINARY, hosted(gentle, lies=True), 0.9, twins=unclamped),
        case("great weights", EXTREME, hosted(great), 0.0),
        case("great weights, real value", EXTREME, hosted(steep), 0.0),
        case("the greatest slot", EXTREME, hosted(steep, slots=(1 << 32) - 1), 0.0),
        case("one agent alone", ORDINARY, single(loss, warner), 0.6, runs=5000),
    ]
