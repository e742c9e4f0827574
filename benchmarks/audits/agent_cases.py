"""The agents' side under audit: answers of a hosted population and of a single agent, to a malicious referee.

Every person of a hosted population has the same record here and answers on their own, so one question is as many
runs as there are people.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.audits.subjects import state_folder
from common.core.arrays import AnyArray, Floats, Indices
from common.core.errors import BadInput
from common.crypto.identity import Identity, Signed
from common.data.population import TableRecordSource
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import Linear, Regressor
from common.local.losses import Costs
from common.local.mechanisms import frequency
from common.local.mechanisms import mechanism as mechanisms
from common.local.mechanisms.frequency import FrequencyOracle
from common.local.mechanisms.mechanism import LocalRandomizer, Warner, parse_mechanism
from common.local.packing import unpack_answers
from common.local.queries.features import GradientQuery, ItemQuery
from common.local.queries.query import LossQuery, Query
from common.local.queries.residuals import ClassResidualQuery, ResidualQuery, ResponseResidualQuery
from common.local.records import Records
from common.net import messages
from common.numerics.randomness import RandomSource
from common.privacy.auditing import Subject
from common.privacy.theorems.randomized_response import k_ary_response_probability
from deploy.auditing import Case, separating
from local_agent import answers as hosting
from local_agent.answers import evaluate, randomize
from local_agent.hosted.population import Population
from local_agent.policy import ALL_QUERIES, PersonalPolicy

EPSILON = 1.0
REFEREE = Identity.create()
Person = tuple[float, ...]
"""Features, two or three, and a label."""

ORDINARY: tuple[Person, Person] = ((0.5, 0.5, 1), (0.5, 0.5, -1))
ITEMS: tuple[Person, Person] = ((0.5, -0.5, 1), (-0.5, 0.5, 1))
"""Two bits, features above 0: the items 2 and 1."""
EXTREME: tuple[Person, Person] = ((3e38, -3e38, 1), (0.0, 0.0, -1))
"""Features at the end of what they can be: with great weights, margins are infinite or not even numbers."""


def people(person: Person, count: int) -> Records:
    """Return as many people with one and the same record."""
    features = np.tile(np.array(person[:-1], dtype=np.float32), (count, 1))
    return Records(features, np.full(count, person[-1], dtype=np.int8))


class ResamplingAgent(Population):
    """Takes fresh randomness whenever it is asked, and forgets that it was asked before."""

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        for path in self._folder.iterdir():
            path.unlink()
        self._counts[:], self._run = 0, ""
        self._source = self._source.derive("again")
        return super().answer(assignment, configuration)


class Interrupted(Population):
    """Finds every time whom it asked, and what they answered damaged."""

    def answer(self, assignment: Signed, configuration: Signed) -> tuple[Signed, bytes]:
        for path in self._folder.iterdir():
            path.write_bytes(path.read_bytes()[:-1])
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
    replaced: Mapping[Any, Any] = {},
) -> Subject:
    """One person a run: all the answers that they gave, as often as they were asked the same question.

    ``replaced`` are parts of the code, by the module or class and the name, and what stands in their places.
    """
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
        with state_folder() as state, ExitStack() as broken:
            if lies:
                broken.enter_context(patch.object(type(query), "evaluate", lie))
            for (place, name), part in replaced.items():
                broken.enter_context(patch.object(place, name, part))
            policy = PersonalPolicy(REFEREE.public, EPSILON, queries=ALL_QUERIES)
            population = kind(TableRecordSource(people(person, runs)), policy, Path(state), source)
            bodies = [population.answer(signed, agreed)[1] for _ in range(times)]
            population.close()
        kind_of_answer = parsed.answer_kind(query.domain)
        return np.stack([unpack_answers(body, runs, kind_of_answer)[1] for body in bodies], axis=1)

    return subject


def single(query: Query, mechanism: LocalRandomizer) -> Subject:
    """One agent's answer a run."""

    def subject(person: Person, runs: int, source: RandomSource) -> AnyArray:
        slots = np.zeros(1, dtype=np.int64)
        value = evaluate(query, people(person, 1).only(query.columns), slots)
        return np.array([float(randomize(query, value, mechanism, slots, source)[0]) for _ in range(runs)])

    return subject


def item_query(mechanism: str) -> ItemQuery:
    """Return the question about :data:`ITEMS` with which a malicious referee tells most: see where slot 0 is asked."""
    oracle = parse_mechanism({"name": mechanism, "epsilon": EPSILON})
    if not isinstance(oracle, FrequencyOracle):
        raise BadInput(f"{mechanism} randomizes a value, not an item")
    return ItemQuery(bits=2, public=separating(oracle))


def case(name: str, inputs: tuple[Person, Person], honest: Subject, least: float, **rest: Any) -> Case:
    """Return a case that claims :data:`EPSILON`, purely."""
    return Case(name, EPSILON, inputs, honest, **{"runs": 100_000, "least": least, **rest})


def item_cases() -> list[Case]:
    """Return the cases of questions about items; everybody has the slot, and so the public word, that tells most."""
    queries = {name: item_query(name) for name in ("krr", "olh", "hadamard")}
    honest, bare = (
        {name: hosted(query, mechanism=name, slots=0, replaced=replaced) for name, query in queries.items()}
        for replaced in (
            {},
            {(place, "respond"): lambda symbols, *_: symbols for place in (frequency, frequency)},
        )
    )
    twice, again = (
        hosted(queries["olh"], mechanism="olh", slots=0, times=2, kind=kind) for kind in (Population, ResamplingAgent)
    )
    alone = single(queries["krr"], parse_mechanism({"name": "krr", "epsilon": EPSILON}))
    return [
        case("an item, krr", ITEMS, honest["krr"], 0.9, twins={"an item sent as it is": bare["krr"]}),
        case("an item, olh", ITEMS, honest["olh"], 0.9, twins={"a hash sent as it is": bare["olh"]}),
        case("an item, hadamard", ITEMS, honest["hadamard"], 0.9),
        case("a repeated item", ITEMS, twice, 0.9, twins={"fresh randomness on every retry": again}),
        case("one agent alone, an item", ITEMS, alone, 0.6, runs=5000),
    ]


def residual_case() -> Case:
    """One person of whom the model is certain and wrong, on either side: the values are 1 and 0."""
    query = ResidualQuery(hypothesis=Linear(weights=(1.0, 1.0), threshold=0.0), slope=1e3, intercept=0.0)
    often = {(Warner, "truth"): property(lambda self: k_ary_response_probability(2.0 * self.epsilon, 2))}
    twins = {"the truth as often as at twice the epsilon": hosted(query, replaced=often)}
    return case("a residual", ((-0.5, -0.5, 1), (0.5, 0.5, -1)), hosted(query), 0.9, twins=twins)


def cost_case() -> Case:
    """One person whom the model misses, or is right about: the values are 1 and 0, whatever a false alarm costs."""
    query = LossQuery(hypothesis=Linear(weights=(1.0, 1.0), threshold=0.0), costs=Costs(miss=24.0, false_alarm=1.0))
    often = {(Warner, "truth"): property(lambda self: k_ary_response_probability(2.0 * self.epsilon, 2))}
    twins = {"the truth as often as at twice the epsilon": hosted(query, replaced=often)}
    return case("a cost", ((-0.5, -0.5, 1), (-0.5, -0.5, -1)), hosted(query), 0.9, twins=twins)


def response_residual_case() -> Case:
    """One person whose response is as far from the prediction as can be, above or below: the values are 1 and 0."""
    query = ResponseResidualQuery(hypothesis=Regressor(weights=(0.0,), intercept=0.5, response=1), reach=0.25)
    often = {(Warner, "truth"): property(lambda self: k_ary_response_probability(2.0 * self.epsilon, 2))}
    twins = {"the truth as often as at twice the epsilon": hosted(query, replaced=often)}
    return case("a response's residual", ((0.5, 1.0, 1), (0.5, 0.0, 1)), hosted(query), 0.9, twins=twins)


def class_residual_case() -> Case:
    """One person of whom the model is certain that another class is theirs, on either side: the values are 1 and 0."""
    scores = tuple(Linear(weights=(sign,), threshold=0.0) for sign in (1e3, -1e3))
    query = ClassResidualQuery(hypothesis=Argmax(first=1, hypotheses=scores), chosen=(1,))
    often = {(Warner, "truth"): property(lambda self: k_ary_response_probability(2.0 * self.epsilon, 2))}
    twins = {"the truth as often as at twice the epsilon": hosted(query, replaced=often)}
    inputs = ((1.0, 0.0, 1.0, 1), (-1.0, 1.0, 0.0, 1))
    return case("a residual of classes", inputs, hosted(query), 0.9, twins=twins)


def cases() -> list[Case]:
    """Return every case of the agents' side."""
    loss = LossQuery(hypothesis=Linear(weights=(1.0, 1.0), threshold=0.0))
    great = LossQuery(hypothesis=Linear(weights=(1e30, 1e30), threshold=-1e30))
    steep = GradientQuery(hypothesis=Linear(weights=(-1e30, 1e30), threshold=1e30), bound=1e-300)
    gentle = GradientQuery(hypothesis=Linear(weights=(0.0, 0.0), threshold=0.0), bound=1.0)
    warner = parse_mechanism({"name": "warner", "epsilon": EPSILON})
    again = {"fresh randomness on every retry": hosted(loss, kind=ResamplingAgent, times=2)}
    unbounded = {
        (hosting, "evaluate"): lambda query, records, slots: query.evaluate(records, slots),
        (mechanisms, "bounded"): lambda values: values,
    }
    unclamped = {"values without clamping": hosted(gentle, lies=True, replaced=unbounded)}
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
        residual_case(),
        cost_case(),
        response_residual_case(),
        class_residual_case(),
        *item_cases(),
    ]
