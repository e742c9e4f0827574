"""Vectors of queries and mechanisms: what is computed from a record, and with which chances it is answered."""

import math
from typing import Any

import numpy as np

from common.core.arrays import Indices
from common.core.errors import TandemError
from common.local.hypotheses.hypothesis import HYPOTHESES, plain_kinds
from common.local.mechanisms.frequency import FrequencyOracle, _hash, public_words
from common.local.mechanisms.mechanism import GRID, MECHANISMS, BitMechanism, Laplace, LocalRandomizer
from common.local.queries.query import QUERIES, Query
from common.local.records import Records
from local_agent.answers import evaluate
from tests.vectors.assignments import LEVELS, LOSS, PLANE

SLOTS = (0, 1, 2, 3, 7, 1000, 2**32 - 1)


def records_for(dimension: int) -> list[Records]:
    """Return people with so many features: what a schema makes of missing fields and of numbers out of their bounds."""
    drawn = np.random.default_rng(dimension)
    rows = [
        np.zeros(dimension),
        np.ones(dimension),
        np.full(dimension, 0.5),
        np.where(np.arange(dimension) % 2 == 0, -0.0, 0.1),
        drawn.random(dimension),
        drawn.normal(size=dimension) * 3.0,
        np.where(drawn.random(dimension) < 0.3, 3.4028235e38, drawn.normal(size=dimension)),
        np.where(drawn.random(dimension) < 0.3, -3.4028235e38, 1e-45),
    ]
    found = [
        Records(np.array([row], dtype=np.float32), np.array([1 - 2 * (place % 2)], dtype=np.int8))
        for place, row in enumerate(rows)
    ]
    bits = np.array([drawn.integers(0, 2, dimension)], dtype=np.uint8)
    return [*found, Records(bits, np.array([1], dtype=np.int8))]


def wide_queries() -> list[dict[str, Any]]:
    """Return queries of every kind, with every kind of hypothesis and loss."""
    found = [example.wire() for kind in QUERIES.shipped() for example in QUERIES[kind].example()]
    for kind in HYPOTHESES.shipped():
        if kind == "onnx":
            continue
        for example in HYPOTHESES[kind].example():
            own = example.wire()
            losses = ("zero-one", "hinge", "perceptron", "logistic", "squared")
            found += [{"kind": "loss", "hypothesis": own, "loss": loss, "bound": 2.0} for loss in losses]
            found.append({"kind": "pair", "hypothesis": own, "rival": PLANE})
            if kind in plain_kinds():
                found.append({"kind": "residual", "hypothesis": own, "slope": 0.75, "intercept": -0.1, "center": 0.5})
                found.append(
                    {"kind": "response-residual", "hypothesis": own, "reach": 0.3, "center": 0.4, "spread": 0.2}
                )
                cells = {"hypothesis": own, "cuts": [-1.0, -0.25, 0.0, 0.25, 1.0]}
                found.append({"kind": "score", "public": str(2**63 - 1), "cells": cells})
    eleven = [round(0.37 * (-1) ** j * (j + 1), 3) for j in range(11)]
    found.append(
        {"kind": "loss", "hypothesis": {"kind": "linear", "weights": eleven, "threshold": 0.2}, "loss": "hinge"}
    )
    # Scores of classes are compared as they are, also beyond the greatest weight.
    beyond = [{"kind": "linear", "weights": weights, "threshold": 0.0} for weights in ([0.0, -1e30], [1e30, -1e30])]
    found.append({"kind": "loss", "hypothesis": {"kind": "argmax", "first": 2, "hypotheses": beyond}})
    found.append({"kind": "moment", "dimension": 20, "bound": 2.0, "norm": 3.0})
    found.append({"kind": "listed", "bits": 64, "items": [0, str(2**64 - 1), str(2**53 + 1)]})
    return found


RECALIBRATED: dict[str, Any] = {"kind": "recalibrated", "hypothesis": PLANE, "slope": 1, "intercepts": [0]}
TWO_CLASSES: dict[str, Any] = {"kind": "argmax", "first": 3, "hypotheses": [PLANE, PLANE]}


def loss_of(kind: str, **hypothesis: Any) -> dict[str, Any]:
    return {"kind": "loss", "hypothesis": {"kind": kind, **hypothesis}}


BAD_QUERIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a missing field", {"kind": "loss"}),
    ("a further field", {**LOSS, "weight": 1}),
    ("an unknown loss", {**LOSS, "loss": "cubic"}),
    ("a bound of 0", {**LOSS, "bound": 0}),
    ("a bound that is a text", {**LOSS, "bound": "1"}),
    ("costs of a convex loss", {**LOSS, "loss": "hinge", "costs": {"miss": 1, "false_alarm": 1}}),
    ("a cost of nothing", {**LOSS, "costs": {"miss": 0, "false_alarm": 1}}),
    ("no weights", {"kind": "loss", "hypothesis": {**PLANE, "weights": []}}),
    ("a weight that is null", {"kind": "loss", "hypothesis": {**PLANE, "weights": [None]}}),
    ("a weight beyond 10^30", {"kind": "loss", "hypothesis": {**PLANE, "weights": [1.1e30]}}),
    ("weights that are an object", {"kind": "loss", "hypothesis": {**PLANE, "weights": {"0": 1}}}),
    ("a label of 0", {"kind": "loss", "hypothesis": {"kind": "constant", "label": 0}}),
    ("a label that is a truth value", {"kind": "loss", "hypothesis": {"kind": "constant", "label": True}}),
    ("features that do not ascend", {"kind": "loss", "hypothesis": {"kind": "parity", "features": [2, 1]}}),
    ("a feature twice", {"kind": "loss", "hypothesis": {"kind": "conjunction", "features": [1, 1]}}),
    ("a conjunction of nothing", {"kind": "loss", "hypothesis": {"kind": "conjunction", "features": []}}),
    ("a tree with a circle", loss_of("trees", roots=[0], feature=[0], threshold=[0], left=[0], right=[0])),
    (
        "a tree with an orphan",
        loss_of("trees", roots=[0], feature=[-1, -1], threshold=[0, 0], left=[-1, -1], right=[-1, -1]),
    ),
    (
        "units of two lengths",
        loss_of("network", hidden=[[1], [1, 2]], thresholds=[0, 0], output=[1, 1], threshold=0),
    ),
    ("a response that is looked at", loss_of("regressor", weights=[1, 1], intercept=0, response=1)),
    ("a label that is looked at", loss_of("relabelled", column=2, hypothesis=PLANE)),
    ("a hypothesis of a hypothesis of a hypothesis", loss_of("relabelled", column=9, hypothesis=RECALIBRATED)),
    ("intercepts for other groups", loss_of(**{**RECALIBRATED, "intercepts": [0, 0]})),
    ("one class", loss_of("argmax", first=3, hypotheses=[PLANE])),
    ("a term of nothing", {"kind": "expression", "terms": [{"weight": 1}]}),
    ("no terms", {"kind": "expression", "terms": []}),
    ("a weight beyond a million", {"kind": "expression", "terms": [{"weight": 1000001, "label": True}]}),
    ("several features in turn and together", {"kind": "coordinate", "first": 0, "count": 2, "more": [3]}),
    ("no features", {"kind": "coordinate", "first": 0, "count": 0}),
    ("a bound of a moment below 0", {"kind": "moment", "dimension": 1, "bound": -1, "norm": 1}),
    ("a gradient of trees", {"kind": "gradient", "hypothesis": {"kind": "constant", "label": 1}, "bound": 1}),
    ("no bits", {"kind": "item", "bits": 0}),
    ("a prefix that is longer", {"kind": "item", "bits": 3, "prefixes": [4]}),
    ("a public number beyond 2^63", {"kind": "item", "bits": 3, "public": str(2**63)}),
    ("a public number below 0", {"kind": "item", "bits": 3, "public": -1}),
    ("a short number that is a text", {"kind": "item", "bits": 3, "public": "7"}),
    ("a long number with a zero before it", {"kind": "listed", "bits": 64, "items": ["0" + str(2**60)]}),
    ("a long number with a sign", {"kind": "listed", "bits": 64, "items": ["+" + str(2**60)]}),
    ("a long number that is not a text", {"kind": "listed", "bits": 64, "items": [2.0**60]}),
    ("an item twice", {"kind": "listed", "bits": 3, "items": [1, 2, 1]}),
    ("a threshold of nothing", {"kind": "threshold", "bits": 3, "below": 0}),
    ("a threshold above all", {"kind": "threshold", "bits": 3, "below": 8}),
    ("a sign that is another text", {"kind": "code", "public": 1, "first": 0, "bits": 3, "sign": "labels"}),
    ("64 bits of a code", {"kind": "code", "public": 1, "first": 0, "bits": 64}),
    ("cuts that do not ascend", {"kind": "score", "public": 1, "cells": {"hypothesis": PLANE, "cuts": [1, 0]}}),
    ("a group twice", {"kind": "score", "public": 1, "cells": {"hypothesis": PLANE, "cuts": [0], "groups": [1, 1]}}),
    ("a class twice", {"kind": "class-residual", "chosen": [0, 0], "hypothesis": TWO_CLASSES}),
    ("a class that is not there", {"kind": "class-residual", "chosen": [2], "hypothesis": TWO_CLASSES}),
    ("all classes", {"kind": "class-residual", "chosen": [0, 1], "hypothesis": TWO_CLASSES}),
    ("classes of a half-space", {"kind": "class-residual", "chosen": [0], "hypothesis": PLANE}),
    (
        "a direction without a center",
        {"kind": "residual", "hypothesis": PLANE, "slope": 1, "intercept": 0, "direction": [1]},
    ),
    ("a spread of 0", {"kind": "response-residual", "hypothesis": PLANE, "spread": 0}),
    ("a reach above 1", {"kind": "response-residual", "hypothesis": PLANE, "reach": 1.5}),
)
"""What is no query, and why."""


def parsed(wire: dict[str, Any]) -> Query:
    query = QUERIES.parse(wire)
    query.check_types(wire)
    return query


def values_of(query: Query, record: Records, slots: Indices) -> list[Any]:
    """Return what a record's agent computes at each slot, before it randomizes: doubles, or items as texts."""
    own = record.only(query.columns)
    many = Records(np.repeat(own.features, len(slots), axis=0), np.repeat(own.labels, len(slots)))
    found = evaluate(query, many, slots).tolist()
    return found if query.domain is None else [str(each) for each in found]


def queries_file() -> dict[str, Any]:
    slots, cases, people = np.array(SLOTS, dtype=np.int64), [], {}
    for wire in wide_queries():
        query = parsed(wire)
        dimension = query.min_features + 1
        people[dimension] = records_for(dimension)
        parts = query.parts(slots).tolist()
        distinct = [place for place, part in enumerate(parts) if part not in parts[:place]]
        case: dict[str, Any] = {
            "query": wire,
            "normal": query.wire(),
            "features": dimension,
            "needs": query.min_features,
        }
        case["columns"] = None if query.columns is None else query.columns.tolist()
        case["domain"] = None if query.domain is None else str(query.domain)
        case["parts"] = parts
        case["values"] = [values_of(query, record, slots[distinct]) for record in people[dimension]]
        cases.append(case)
    about = (
        "queries, what they need and look at, the part of each slot, and the value (of an item, its number as a text) "
        "of each of the people with so many features, at the first slot of each part; and what is no query"
    )
    wires = {
        str(dimension): [
            {"type": str(r.features.dtype), "features": [float(x) for x in r.features[0]], "label": int(r.labels[0])}
            for r in records
        ]
        for dimension, records in sorted(people.items())
    }
    for case in cases:
        if case["normal"] == case["query"]:
            del case["normal"]
    refused = [{"about": why, "query": wire, "refused": "bad-message"} for why, wire in BAD_QUERIES]
    return {"about": about, "slots": list(SLOTS), "people": wires, "cases": cases, "refused": refused}


DOMAINS = (None, 2, 3, 16, 300, 65536, 65537, 2**32, 2**64)
VALUES = (0.0, 1.0, 0.5, 1 / 3, 0.1, 2.0**-60, 1.0 - 2.0**-53)
EPSILONS = (1e-6, 0.1, 1.0, math.log(2.0), 3.0, 11.0, 36.0, 700.0)


def mechanisms_file() -> dict[str, Any]:
    wires: list[dict[str, Any]] = [
        {"name": name, "epsilon": epsilon}
        for name in ("warner", "krr", "olh", "hadamard", "laplace")
        for epsilon in EPSILONS
        if not (name == "olh" and epsilon > 11.0) and not (name == "laplace" and not 1e-3 <= epsilon <= 30.0)
    ]
    wires += [{"name": "laplace", "epsilon": epsilon} for epsilon in (0.001, 30.0)]
    wires += [{**LEVELS, "level": level} for level in (0, 1, 2)] + [LEVELS, {"name": "none"}]
    wires.append({"name": "gaussian", "epsilon": 0.5, "delta": 1e-4})
    cases = [_mechanism(wire) for wire in wires]
    publics = [
        [public, slot, str(public_words(int(public), np.array([slot]))[0])]
        for public in ("0", "1", str(2**53), str(2**63 - 1))
        for slot in SLOTS
    ]
    about = (
        "mechanisms, their cost (null: infinite), and for each domain (null: values) what an answer is and what may "
        "leave, or the problem. Chances are in units of 2^-53 (of values: that the answer is 1), of Laplace's digits "
        "2^-128. "
        "publics: [public, slot, word]. buckets: [public word, item, number of buckets, bucket]"
    )
    words = [int(str(word)) for _, _, word in publics[::5]]
    items = (0, 1, 2**32, 2**53 + 1, 2**64 - 1)
    buckets = [
        [str(word), str(item), count, _bucket(word, item, count)]
        for word in words
        for item in items
        for count in (2, 3, 4, 65535)
    ]
    return {"about": about, "values": list(VALUES), "cases": cases, "publics": publics, "buckets": buckets}


def _bucket(word: int, item: int, count: int) -> int:
    found = np.empty(1, dtype=np.uint64)
    _hash(np.array([item], dtype=np.uint64), np.array([word], dtype=np.uint64), count, found)
    return int(found[0])


def _mechanism(wire: dict[str, Any]) -> dict[str, Any]:
    mechanism = MECHANISMS.parse(wire)
    cost = [None if math.isinf(each) else each for each in mechanism.guarantee]
    case: dict[str, Any] = {"mechanism": wire, "cost": cost, "domains": []}
    for domain in DOMAINS:
        about: dict[str, Any] = {"domain": None if domain is None else str(domain)}
        try:
            about |= {"kind": mechanism.answer_kind(domain), "leaves": mechanism.leaves(domain)}
        except TandemError as error:
            about["refused"] = error.problem
        else:
            about |= _chances(mechanism, domain)
        case["domains"].append(about)
    refusals = {about.get("refused") for about in case["domains"][1:]}
    if refusals == {"policy"}:  # of all items alike
        case["domains"] = case["domains"][:2]
    return case


def _chances(mechanism: LocalRandomizer, domain: int | None) -> dict[str, Any]:
    if isinstance(mechanism, BitMechanism):
        low = GRID - int(mechanism.truth * GRID)
        ones = [low + round(float(np.rint(value * (GRID - 2 * low)))) for value in VALUES]
        return {"truth": str(int(mechanism.truth * GRID)), "ones": [str(each) for each in ones]}
    if isinstance(mechanism, Laplace):
        return {"ratio": str(int(mechanism.ratio * GRID)), "digits": [str(each) for each in mechanism.chances]}
    if isinstance(mechanism, FrequencyOracle) and domain is not None:
        return {"truth": str(int(mechanism.rates(domain)[0] * GRID))}
    return {}
