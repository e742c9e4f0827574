"""How long answers of hosted real people take, and how long the public schedule holds them.

    python -m benchmarks.answer_times [--people 4000] [--json]

A host of real people holds its answers for :func:`local_agent.host.seconds_for` at least. Here each registered
mechanism answers one short question, with as much noise as it can have, and Warner's bit answers the largest questions:
trees as deep as may be, as many as may be, the longest half-space, classes, parities and lists. Measured on one core,
after a first call that compiles, in time of the processor, which other work does not lengthen: reading the question
(parsing, checking, its digest), and the answers, each with noise of the person's own. ``room`` is what the schedule
grants over what was taken. Hosts of real people accept no ONNX graphs, so there are none here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from common.core import canonical
from common.data.population import TableRecordSource
from common.local.hypotheses.composed import Argmax
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.hypotheses.rules import LEAF, Trees
from common.local.mechanisms.mechanism import MECHANISMS, LocalRandomizer, Mechanism, parse_mechanism
from common.local.queries.features import ItemQuery, ListedQuery
from common.local.queries.query import QUERIES, LossQuery, Query, parse_query
from common.local.records import Records
from common.numerics.randomness import RandomSource
from local_agent.answers import answer_together
from local_agent.host import seconds_for

FEATURES = 256
CLASSED = FEATURES - 64
WIDE = 1 << 13
"""Features of the people who are asked about the longest half-space."""
MIN_EPSILON = 0.001
"""The epsilon for which geometric noise has the most digits."""


@dataclass(frozen=True)
class Row:
    """One question: seconds to read it, seconds per person to answer it, and the schedule's time for all."""

    question: str
    mechanism: str
    characters: int
    people: int
    reading: float
    a_person: float
    granted: float
    room: float


def arms(trees: int, depth: int, features: int = FEATURES) -> Trees:
    """Return trees of one arm each: the largest number of steps for so many nodes."""
    size = 2 * depth + 1
    feature = [
        node for _ in range(trees) for node in (*(k % features if k % 2 == 0 else LEAF for k in range(size - 1)), LEAF)
    ]
    start = np.repeat(np.arange(trees) * size, size)
    place = np.tile(np.arange(size), trees)
    inner = (place % 2 == 0) & (place < size - 1)
    left, right = np.where(inner, start + place + 1, LEAF), np.where(inner, start + place + 2, LEAF)
    return Trees(
        roots=tuple(range(0, trees * size, size)),
        feature=tuple(feature),
        threshold=tuple(np.where(inner, 0.25, 1.0).tolist()),
        left=tuple(left.tolist()),
        right=tuple(right.tolist()),
    )


def questions() -> Iterator[tuple[str, Query, LocalRandomizer, int]]:
    """Yield each question's name, the query, its mechanism, and the number of people's features."""
    bit = parse_mechanism({"name": "warner", "epsilon": 1.0})
    short: dict[bool, Query] = {
        True: LossQuery(hypothesis=Linear(weights=(1.0,) * 8, threshold=0.0)),
        False: ItemQuery.example()[0],
    }
    for name in MECHANISMS.names():
        if MECHANISMS[name].for_real_people:
            several = "epsilons" in MECHANISMS[name].model_fields
            asked = {"epsilons": [MIN_EPSILON, 2.0 * MIN_EPSILON]} if several else {"epsilon": MIN_EPSILON}
            mechanism = parse_mechanism({"name": name, **asked})
            query = short[isinstance(mechanism, Mechanism)]
            yield f"{query.kind}, short", query, mechanism, FEATURES
    oracle = parse_mechanism({"name": "hadamard", "epsilon": 1.0})
    for name in QUERIES.names():
        for query in QUERIES[name].example():
            yield f"{name}, example", query, bit if query.domain is None else oracle, FEATURES
    big: dict[str, Hypothesis] = {
        "one tree of depth 256": arms(1, 256),
        "511 trees of depth 256": arms(511, 256),
        "65536 stumps": arms(1 << 16, 1),
        "half-space of 8192 features": Linear(weights=(0.123456789,) * WIDE, threshold=0.0),
        "64 classes, 192 features": Argmax(
            first=CLASSED, hypotheses=(Linear(weights=(0.123456789,) * CLASSED, threshold=0.0),) * 64
        ),
    }
    for name, hypothesis in big.items():
        yield name, LossQuery(hypothesis=hypothesis), bit, WIDE if "8192" in name else FEATURES
    yield "list of 4096 items", ListedQuery(first=0, bits=64, items=tuple(range(1 << 12))), oracle, FEATURES


def measured(name: str, query: Query, mechanism: LocalRandomizer, features: int, people: int) -> Row:
    """Time one question: the minimum of three runs for the people, and one run for the reading."""
    people = people if features == FEATURES else people // 8
    rng = np.random.default_rng(0)
    rows = Records(rng.random((people, features), dtype=np.float32), np.ones(people, dtype=np.int8))
    source, everybody = TableRecordSource(rows), np.arange(people)
    secret = RandomSource.secure()
    wire = json.loads(json.dumps(query.wire()))
    start = time.process_time()
    again = parse_query(wire)
    canonical.digest([again.wire(), mechanism.wire()])
    reading = time.process_time() - start
    answer_together(again, mechanism, source, everybody[:8], everybody[:8], secret)
    taken = []
    for _ in range(3):
        start = time.process_time()
        answer_together(again, mechanism, source, everybody, everybody, secret)
        taken.append(time.process_time() - start)
    granted = seconds_for(people, len(str(wire)))
    return Row(
        question=name,
        mechanism=mechanism.name,
        characters=len(str(wire)),
        people=people,
        reading=reading,
        a_person=min(taken) / people,
        granted=granted,
        room=granted / (reading + min(taken)),
    )


def measure(people: int) -> Iterator[Row]:
    """Measure every question of :func:`questions`."""
    for name, query, mechanism, features in questions():
        yield measured(name, query, mechanism, features, people)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=4000, help="how many are asked each question")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(
            f"{'question':<30} {'mechanism':<10} {'characters':>10} "
            f"{'reading, ms':>12} {'a person, us':>13} {'room':>6}"
        )
    for row in measure(options.people):
        rows.append(row)
        if not options.json:
            print(
                f"{row.question:<30} {row.mechanism:<10} {row.characters:>10,} {1e3 * row.reading:>12.2f} "
                f"{1e6 * row.a_person:>13.1f} {row.room:>6.1f}"
            )
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
