"""Cases for both agents: questions, whole and damaged, records, names and mechanisms, with what Python makes of them.

A case is JSON. Its ``expected`` is what the agent in Python does with it: the problem with which it refuses, or all
that it computes and says. Everything follows from the seed.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from common.core.errors import TandemError
from common.core.plain import visible
from common.local.hypotheses.hypothesis import hypothesis_kinds, ordinary_kinds, parse_hypothesis
from common.local.mechanisms.frequency import FrequencyOracle, KaryResponse, LocalHashing, public_words
from common.local.mechanisms.levels import WarnerLevels
from common.local.mechanisms.mechanism import GRID, BitMechanism, Laplace, LocalRandomizer, parse_mechanism
from common.local.naming import UNNAMED, Names
from common.local.queries.query import Query, parse_query
from common.local.records import Records
from common.net.messages import pack_indices
from common.numerics.kernels import interpreted
from common.numerics.randomness import RandomSource
from common.privacy.theorems.randomized_response import k_ary_response_probability
from local_agent.answers import evaluate, randomize
from local_agent.person.consent import sections
from local_agent.policy import names_in

Wire = dict[str, Any]
ADDRESS, KEY = "https://referee.example", "ab" * 32


class GivenWords(RandomSource):
    """Words that both agents draw from: a few that are given, then those of a public seed."""

    def __init__(self, seed: int, first: list[int]) -> None:
        super().__init__(bytes(32), simulated=False)
        self._seed, self._first, self.drawn = seed, first, 0

    def words(self, count: int) -> np.ndarray:
        places = np.arange(self.drawn, self.drawn + count)
        found = public_words(self._seed, places)
        for place, word in enumerate(self._first[self.drawn : self.drawn + count]):
            found[place] = word
        self.drawn += count
        return found


def cases(count: int, seed: int) -> Iterator[Wire]:
    """Return so many cases, each with what is expected of it."""
    chance = random.Random(seed)
    for number in range(count):
        case = table_case(chance) if number % 50 == 0 else question_case(chance)
        yield case | {"expected": expected(case)}


def expected(case: Wire) -> Wire:
    """Return what the agent in Python makes of a case."""
    try:
        with interpreted():
            return _names_of(case) if "table" in case else _answered(case)
    except TandemError as error:
        return {"problem": error.problem}


def _names_of(case: Wire) -> Wire:
    return {"names": names_in({"target": {"table": case["table"]}}).wire()}


def _answered(case: Wire) -> Wire:
    if hypothesis_kinds(case["query"]) - ordinary_kinds():
        return {"problem": "policy"}
    query = parse_query(case["query"])
    query.check_types(case["query"])
    features = np.array([case["features"]], dtype=np.uint8 if case["bits"] else np.float32)
    if query.min_features > features.shape[1]:
        return {"problem": "policy"}
    mechanism = parse_mechanism(case["mechanism"])
    mechanism.check_types(case["mechanism"])
    mechanism = mechanism.affordable(tuple(case["left"]))
    kind = mechanism.answer_kind(query.domain)
    slots = np.array([case["slot"]])
    records = Records(features, np.array([case["label"]], dtype=np.int8)).only(query.columns)
    value = evaluate(query, records, slots)
    found: Wire = {
        "query": query.wire(),
        "mechanism": mechanism.wire(),
        "min_features": query.min_features,
        "columns": None if query.columns is None else query.columns.tolist(),
        "domain": None if query.domain is None else str(query.domain),
        "part": int(query.parts(slots)[0]),
        "value": value[0].item() if query.domain is None else str(value[0]),
        "answer_kind": kind,
        "for_real_people": mechanism.for_real_people,
        "thresholds": thresholds(mechanism, query.domain),
        "words": said(case, query, mechanism),
    }
    source = GivenWords(int(case["seed"]), [int(word) for word in case["first"]])
    try:
        found["answer"] = float(randomize(query, value, mechanism, slots, source)[0])
    except TandemError as error:
        found["answer"] = error.problem
    return found | {"drawn": source.drawn}


def thresholds(mechanism: LocalRandomizer, domain: int | None) -> list[str]:
    """Return the whole numbers with which coins are compared."""
    if isinstance(mechanism, Laplace):
        return [str(int(mechanism.ratio * GRID)), *map(str, mechanism.chances)]
    if isinstance(mechanism, LocalHashing):
        return [str(mechanism.buckets), str(int(mechanism.rates(2)[0] * GRID))]
    if isinstance(mechanism, KaryResponse):
        return [str(int(mechanism.rates(domain or 2)[0] * GRID))]
    if isinstance(mechanism, WarnerLevels):
        return [str(int(k_ary_response_probability(mechanism.guarantee[0], 2) * GRID))]
    if isinstance(mechanism, BitMechanism | FrequencyOracle):
        return [str(int(mechanism.truth * GRID))]  # type: ignore[union-attr]
    return []


def said(case: Wire, query: Query, mechanism: LocalRandomizer) -> dict[str, str]:
    """Return the text to which a person agrees."""
    people, slots = (pack_indices(np.array([number])) for number in (0, case["slot"]))
    asked = SimpleNamespace(run="run-1", question=case["slot"] % 7, people=people, slots=slots)
    question = SimpleNamespace(
        assignment=asked,
        query=query,
        mechanism=mechanism,
        names=Names.parse(case["names"]),
        own_names=case["own_names"],
        purpose=case["purpose"],
    )
    policy = SimpleNamespace(epsilon=case["lifetime"], referee=KEY)
    found = sections(question, ADDRESS, policy, case["left"][0])  # type: ignore[arg-type]
    return {title: visible(text) for title, text in found.items()}


EPSILONS = (1e-6, 0.001, 0.1, 0.25, 0.5, 1.0, 1.0986122886681098, 2.0, 3.0, 4.0, 8.0, 30.0, 36.8, 700.0)
TEXTS = ("plan", "pro", 'a "name"', "naïve\u202e", "\t", "x" * 50, "\U0001f600" * 45, "", "日本", "\U000e0001")


def question_case(chance: random.Random) -> Wire:
    """Return a case of one question, without what is expected."""
    kind = chance.choice(sorted(QUERY))
    query = {"kind": kind, **QUERY[kind](chance)}
    mechanism = random_mechanism(chance, kind in ("item", "listed"))
    needed = _needed(query)
    if chance.random() < 0.25:
        part = chance.choice([query, query, query, mechanism])
        for _ in range(chance.choice((1, 1, 1, 2))):
            damage(part, chance)
    dimension = max(1, needed + chance.choice((0, 0, 1, 3, -1)))
    bits = chance.random() < 0.3
    lifetime = chance.choice((1.0, 10.0, 0.3, 2.5, 1000.0))
    return {
        "query": query,
        "mechanism": mechanism,
        "names": random_names(chance, dimension),
        "own_names": chance.random() < 0.5,
        "purpose": chance.choice(TEXTS) * chance.choice((1, 1, 9)),
        "features": random_features(chance, dimension, bits),
        "bits": bits,
        "label": chance.choice((-1, 1)),
        "slot": chance.choice((0, 1, chance.randrange(100), chance.randrange(1 << 32))),
        "lifetime": lifetime,
        "left": [chance.choice((lifetime, lifetime * chance.random())), 0.0],
        "seed": str(chance.getrandbits(63)),
        "first": [str(word) for word in chance.choice(([], [], [0], [0] * 80, [(1 << 64) - 1] * 8, [1 << 63] * 3))],
    }


def _needed(query: Wire) -> int:
    try:
        return min(parse_query(query).min_features, 1 << 10)
    except TandemError:
        return 4


def random_features(chance: random.Random, dimension: int, bits: bool) -> list[float]:
    """Return the features of a record: bits, or finite singles, of which some are far outside of [0, 1]."""
    if bits:
        return [chance.randrange(2) for _ in range(dimension)]
    wild = chance.random() < 0.2
    draws: tuple[Callable[[], float], ...] = (
        lambda: float(chance.randrange(2)),
        chance.random,
        lambda: chance.gauss(0.0, 3.0),
        lambda: 0.5,
    )
    far: tuple[Callable[[], float], ...] = (lambda: chance.choice((3e38, -3e38, 1e30, -1e20, 1e-40, -1e-45)),)
    drawn = [chance.choice(draws + far * wild)() for _ in range(dimension)]
    return [float(np.float32(each)) for each in drawn]


def _number(chance: random.Random, most: float = 1e30) -> float:
    usual = (0.0, 1.0, -1.0, 0.5, chance.gauss(0.0, 1.0), chance.gauss(0.0, 1.0), chance.gauss(0.0, 10.0))
    return (
        chance.choice(usual)
        if chance.random() < 0.9
        else chance.choice((-1.0, 1.0)) * 10.0 ** chance.uniform(-40, 30) % most
    )


def _numbers(chance: random.Random, count: int) -> list[float]:
    return [_number(chance) for _ in range(count)]


def _some(chance: random.Random, most: int, least: int = 0, below: int = 10) -> list[int]:
    return sorted(chance.sample(range(below), chance.randint(least, min(most, below))))


def tree(chance: random.Random, depth: int, nodes: Wire) -> int:
    """Append a random tree to nodes; return its root."""
    place = len(nodes["feature"])
    inner = depth > 0 and chance.random() < 0.8
    for name, value in (("feature", chance.randrange(6) if inner else -1), ("left", -1), ("right", -1)):
        nodes[name].append(value)
    nodes["threshold"].append(_number(chance))
    if inner:
        nodes["left"][place] = tree(chance, depth - 1, nodes)
        nodes["right"][place] = tree(chance, depth - 1, nodes)
    return place


def _trees(chance: random.Random) -> Wire:
    nodes: Wire = {name: [] for name in ("feature", "threshold", "left", "right")}
    roots = [tree(chance, chance.randrange(4), nodes) for _ in range(chance.randint(1, 3))]
    return {"roots": roots, **nodes} | ({"base": _number(chance)} if chance.random() < 0.7 else {})


def _network(chance: random.Random) -> Wire:
    units, width = chance.randint(1, 10), chance.randint(1, 10)
    hidden = [_numbers(chance, width) for _ in range(units)]
    return {
        "hidden": hidden,
        "thresholds": _numbers(chance, units),
        "output": _numbers(chance, units),
        "threshold": _number(chance),
    }


def _linear(chance: random.Random) -> Wire:
    return {"weights": _numbers(chance, chance.choice((1, 2, 3, 8, 9, 30))), "threshold": _number(chance)}


def _regressor(chance: random.Random) -> Wire:
    weights = _numbers(chance, chance.randint(1, 10))
    found = {"weights": weights, "intercept": _number(chance), "response": len(weights) + chance.randrange(3)}
    return found | ({"center": chance.random(), "spread": 0.5} if chance.random() < 0.2 else {})


PLAIN: dict[str, Callable[[random.Random], Wire]] = {
    "linear": _linear,
    "regressor": _regressor,
    "network": _network,
    "constant": lambda chance: {"label": chance.choice((-1, 1))},
    "conjunction": lambda chance: {"features": _some(chance, 4, 1)},
    "stump": lambda chance: {
        "feature": chance.randrange(5),
        "threshold": _number(chance),
        "sign": chance.choice((-1, 1)),
    },
    "parity": lambda chance: {"features": _some(chance, 6)},
    "flipped-parity": lambda chance: {
        "features": _some(chance, 6),
        "first": chance.randrange(4),
        "bits": chance.randint(1, 9),
        "threshold": chance.randrange(32),
    },
    "trees": _trees,
}


def plain(chance: random.Random) -> Wire:
    """Return a hypothesis that can be part of another."""
    kind = chance.choice(sorted(PLAIN))
    return {"kind": kind, **PLAIN[kind](chance)}


def _beyond(part: Wire) -> int:
    return parse_hypothesis(part).min_features


def hypothesis(chance: random.Random) -> Wire:
    """Return a hypothesis of any ordinary kind."""
    kind = chance.choice(("plain", "plain", "relabelled", "argmax", "recalibrated"))
    if kind == "plain":
        return plain(chance)
    if kind == "argmax":
        return argmax(chance)
    part = plain(chance)
    if kind == "relabelled":
        return {"kind": kind, "column": _beyond(part) + chance.randrange(2), "hypothesis": part}
    groups = _some(chance, 3)
    intercepts = _numbers(chance, len(groups) + 1 if groups else 1)
    found = {"kind": kind, "hypothesis": part, "slope": chance.choice((1.0, 0.5, 1e6, 1e-9)), "intercepts": intercepts}
    return found | ({"groups": groups} if groups or chance.random() < 0.5 else {})


def argmax(chance: random.Random) -> Wire:
    """Return a classifier into several classes."""
    parts = [plain(chance) for _ in range(chance.randint(2, 4))]
    return {"kind": "argmax", "first": max(map(_beyond, parts)), "hypotheses": parts}


def _loss(chance: random.Random) -> Wire:
    found: Wire = {"hypothesis": hypothesis(chance)}
    kind = chance.choice(("", "zero-one", "hinge", "perceptron", "logistic", "logistic", "squared", "costs"))
    if kind == "costs":
        return found | {"costs": {"miss": chance.choice((24.0, 1.0, 1e-6)), "false_alarm": chance.choice((1.0, 3.0))}}
    found |= {"loss": kind} if kind else {}
    return found | ({"bound": chance.choice((1.0, 4.0, 0.5, 2.0**-20, 1e6))} if chance.random() < 0.5 else {})


def _expression(chance: random.Random) -> Wire:
    terms = []
    for _ in range(chance.choice((1, 1, 2, 3, 9))):
        features = [chance.randrange(8) for _ in range(chance.randrange(4))]
        label = not features or chance.random() < 0.3
        weight = {"weight": chance.choice((1.0, -1.0, 0.25, -1e6, 1 / 3))} if chance.random() < 0.7 else {}
        terms.append({"features": features} | weight | ({"label": label} if label or chance.random() < 0.3 else {}))
    return {"terms": terms} | ({"offset": chance.choice((0.0, 0.5, -0.25, 1e6))} if chance.random() < 0.6 else {})


def _coordinate(chance: random.Random) -> Wire:
    more = chance.random() < 0.3
    return {"first": chance.randrange(4)} | ({"more": _some(chance, 3)} if more else {"count": chance.randint(1, 5)})


def _bits(chance: random.Random, most: int = 64) -> Wire:
    bits = chance.choice((1, 2, 3, 5, 8, min(31, most), most))
    return {"bits": bits} | ({"first": chance.randrange(4)} if chance.random() < 0.7 else {})


def _public(chance: random.Random) -> Any:
    return chance.choice((0, 1, 5, chance.randrange(1 << 50), str(chance.randrange(1 << 63))))


def _item(chance: random.Random) -> Wire:
    found = _bits(chance) | {"public": _public(chance)}
    prefixes = [chance.randint(1, found["bits"]) for _ in range(chance.randrange(4))]
    return found | ({"prefixes": prefixes} if prefixes else {})


def _listed(chance: random.Random) -> Wire:
    found = _bits(chance) | {"public": _public(chance)}
    most = min(1 << found["bits"], 1 << 53)
    return found | {"items": chance.sample(range(most), min(most, chance.randint(1, 9)))}


def _threshold(chance: random.Random) -> Wire:
    found = _bits(chance)
    below = chance.randrange(1, 1 << found["bits"])
    return found | {"below": below if below <= 1 << 53 else str(below)}


def _code(chance: random.Random) -> Wire:
    found = {"first": 0} | _bits(chance, 63) | {"public": _public(chance)}
    found |= {"sign": chance.choice((None, "label", 2, 11))} if chance.random() < 0.8 else {}
    return found | ({"present": chance.choice((None, 0, 9))} if chance.random() < 0.7 else {})


def _score(chance: random.Random) -> Wire:
    cuts = sorted(set(_numbers(chance, chance.choice((1, 3, 20)))))
    cells: Wire = {"hypothesis": plain(chance), "cuts": cuts}
    groups = _some(chance, 3)
    return {"public": _public(chance), "cells": cells | ({"groups": groups} if groups else {})}


def _residual(chance: random.Random) -> Wire:
    found = {"hypothesis": plain(chance), "slope": _number(chance), "intercept": _number(chance)}
    if chance.random() < 0.4:
        return found
    found |= {"center": _number(chance)}
    return found | ({"direction": _numbers(chance, chance.randint(1, 9))} if chance.random() < 0.4 else {})


def _response_residual(chance: random.Random) -> Wire:
    found: Wire = {"hypothesis": plain(chance)}
    found |= {"reach": chance.choice((1.0, 0.5, 2.0**-20))} if chance.random() < 0.6 else {}
    return found | ({"center": 0.4, "spread": 0.25} if chance.random() < 0.5 else {})


def _class_residual(chance: random.Random) -> Wire:
    model = argmax(chance)
    if chance.random() < 0.5:
        return {"hypothesis": model}
    return {"hypothesis": model, "chosen": _some(chance, 3, 1, len(model["hypotheses"]))}


def _pair(chance: random.Random) -> Wire:
    return {"hypothesis": hypothesis(chance), "rival": hypothesis(chance)}


def _moment(chance: random.Random) -> Wire:
    widths = (1.0, 2.0, 1e-200, 1e200, 0.1)
    return {"dimension": chance.randint(1, 12), "bound": chance.choice(widths), "norm": chance.choice(widths)}


def _gradient(chance: random.Random) -> Wire:
    kind = {"kind": "linear"} if chance.random() < 0.9 else {}
    return {"hypothesis": kind | _linear(chance), "bound": chance.choice((1.0, 3.0, 0.1))}


QUERY: dict[str, Callable[[random.Random], Wire]] = {
    "loss": _loss,
    "pair": _pair,
    "expression": _expression,
    "coordinate": _coordinate,
    "moment": _moment,
    "gradient": _gradient,
    "item": _item,
    "listed": _listed,
    "threshold": _threshold,
    "code": _code,
    "score": _score,
    "residual": _residual,
    "response-residual": _response_residual,
    "class-residual": _class_residual,
}


def random_mechanism(chance: random.Random, items: bool) -> Wire:
    """Return a mechanism, mostly one that can randomize what is asked."""
    usual = ("krr", "olh", "hadamard") if items else ("warner", "warner", "laplace", "warner-levels", "none")
    name = chance.choice(usual)
    name = name if chance.random() < 0.95 else chance.choice(("gaussian", "warner", "krr"))
    epsilon = chance.choice((*EPSILONS, math.exp(chance.uniform(-7, 3.4)), chance.uniform(0.01, 4.0)))
    if name == "none":
        return {"name": name}
    if name == "warner-levels":
        found: Wire = {"name": name, "epsilons": sorted({epsilon, 0.5, chance.uniform(0.1, 2.0)})}
        return found | ({"level": chance.randrange(3)} if chance.random() < 0.3 else {})
    limits = {"laplace": (0.001, 30.0), "olh": (1e-6, 11.0)}.get(name, (1e-6, 700.0))
    found = {"name": name, "epsilon": min(max(epsilon, limits[0]), limits[1])}
    return found | ({"delta": 1e-6} if name == "gaussian" else {})


def random_names(chance: random.Random, dimension: int) -> Wire:
    """Return names of a record's columns, or none."""
    if chance.random() < 0.3:
        return UNNAMED.wire()
    columns = []
    for _ in range(min(dimension, 80)):
        category = {"values": chance.sample(TEXTS, chance.choice((1, 1, 2, 7)))}
        number = {"low": _number(chance), "high": _number(chance)}
        columns.append({"column": chance.choice(TEXTS)} | (category if chance.random() < 0.5 else number))
    found: Wire = {"features": columns, "shortened": chance.random() < 0.2}
    if chance.random() < 0.7:
        found["label"] = chance.choice(TEXTS)
    if chance.random() < 0.5:
        found |= {"positive": chance.sample(TEXTS, 2), "negative": chance.sample(TEXTS, chance.randrange(9))}
    return found | ({"above": _number(chance)} if chance.random() < 0.3 else {})


def table_case(chance: random.Random) -> Wire:
    """Return the JSON form of a table, whole or damaged."""
    features: list[Wire] = []
    for _ in range(chance.randint(1, 5)):
        column = chance.choice(TEXTS)
        values = [chance.choice(TEXTS), list(chance.sample(TEXTS, 2))]
        number = {"low": _number(chance), "high": _number(chance)}
        features.append({"column": column} | chance.choice((number, {"values": values}, {"kind": "missing"})))
    label = {"column": chance.choice(TEXTS)}
    label |= chance.choice(({"positive": ["yes"], "negative": ["no"]}, {"above": _number(chance)}, {}))  # type: ignore[arg-type]
    table: Wire = {"features": features, "label": label, "path": "people.csv"}
    table |= {"norm": chance.choice((None, 2.0))} if chance.random() < 0.5 else {}
    if chance.random() < 0.4:
        damage(table, chance)
    return {"table": table}


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 64, 65, 0.5, -0.5, 1e30, 1.1e30, 1e300, 5e-324, 2**53, 1 << 16, 1 << 20, "", "5",
    " 7 ", "-3", "1_0", "5.0", "5.5", "1e3", "0x5", "nan", "Infinity", "label", "linear", "argmax", "onnx", "true",
    "on", "18446744073709551615", "18446744073709551616", [], [1], [1, 1], [[]], {}, {"kind": "constant", "label": 1},
    {"kind": "onnx", "model": ""}, {"kind": "parity", "features": []},
)  # fmt: skip


def damage(wire: Any, chance: random.Random) -> None:
    """Change one thing somewhere in a JSON value."""
    places = list(_places(wire))
    holder: Any
    key: Any
    holder, key = chance.choice(places) if places else (wire, "extra")
    what = chance.random()
    if not places or (isinstance(holder, dict) and what < 0.1):
        holder[chance.choice(("extra", "label", "kind", "features", "bound"))] = copy.deepcopy(chance.choice(ODD))
    elif what < 0.25:
        del holder[key]
    elif what < 0.35 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[key] = copy.deepcopy(chance.choice(ODD))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])
