"""Compare both agents on generated questions, and test the law of the answers of the one in JavaScript.

    python -m benchmarks.web_agent [--cases N] [--messages N] [--answers N] [--seed SEED]

A case is a question, whole or damaged, with a record, names, and words of noise: both agents must refuse it with the
same problem, or compute the same value, coins, answer and text, bit for bit. A message is bytes, or a whole check of an
assignment: canonical form, or decision and problem, must be the same. For each mechanism a chi-square test holds
a million answers against the exact probabilities; a twin with a fault in its randomness has to fail it. Needs Node.js;
takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

import numpy as np
from scipy.stats import chisquare

from benchmarks.web_agent import messages
from benchmarks.web_agent.cases import cases
from benchmarks.web_agent.compare import compared, node
from common.local.mechanisms.frequency import LocalHashing, parity, public_words
from common.local.mechanisms.frequency import _hash as hash_items
from common.local.mechanisms.levels import WarnerLevels
from common.local.mechanisms.mechanism import GRID, Laplace, Warner, parse_mechanism

Law = dict[int, float]
LEAST = 5.0  # answers that a cell of the test must expect: rarer ones are put together
SIGNIFICANT = 1e-3  # of each test, divided by their number
ITEM, DOMAIN, WORD = 3, 11, int(public_words(7, np.array([2]))[0])
OF_VALUES: tuple[dict[str, Any], ...] = (
    {"name": "warner", "epsilon": 1.0},
    {"name": "warner-levels", "epsilons": [0.5, 1.0, 3.0], "level": 1},
    {"name": "laplace", "epsilon": 0.5},
    {"name": "none"},
)
OF_ITEMS: tuple[dict[str, Any], ...] = tuple({"name": name, "epsilon": 1.0} for name in ("krr", "olh", "hadamard"))
TWINS = (
    ("one word in 50 is 0", OF_VALUES[0]),
    ("one word in 50 is 0", OF_VALUES[2]),
    ("one word in 50 is 0", OF_ITEMS[2]),
    ("numbers below n are bytes modulo n", OF_ITEMS[0]),
)


def bit_law(truth: float, value: float) -> Law:
    """Return the probabilities of a bit that tells a value with a chance."""
    low = GRID - int(truth * GRID)
    ones = (low + round(value * (GRID - 2 * low))) / GRID
    return {0: 1.0 - ones, 1: ones}


def law(wire: dict[str, Any], value: float) -> Law:
    """Return the probability of each answer about a value, or about :data:`ITEM` of :data:`DOMAIN`."""
    mechanism = parse_mechanism(wire)
    if isinstance(mechanism, WarnerLevels):
        level = mechanism.level or 0
        bits = bit_law(Warner(epsilon=mechanism.epsilons[level]).truth, value)
        return {2 * level + bit: chance for bit, chance in bits.items()}
    if isinstance(mechanism, Laplace):
        q = mechanism.ratio
        noise = {z: (1.0 - q) / (1.0 + q) * q ** abs(z) for z in range(-200, 201)}
        return {z: (1.0 - value) * noise[z] + value * noise.get(z - 1, 0.0) for z in noise}
    if wire["name"] in ("warner", "none"):
        return bit_law(mechanism.truth, value)  # type: ignore[attr-defined]
    own, count = ITEM, DOMAIN
    if wire["name"] == "hadamard":
        own, count = int(parity(np.uint64(ITEM) & np.uint64(WORD))), 2
    if isinstance(mechanism, LocalHashing):
        found = np.empty(1, dtype=np.uint64)
        hash_items(np.array([ITEM], dtype=np.uint64), np.array([WORD], dtype=np.uint64), mechanism.buckets, found)
        own, count = int(found[0]), mechanism.buckets
    truth = mechanism.rates(DOMAIN)[0]  # type: ignore[attr-defined]
    return {each: truth if each == own else (1.0 - truth) / (count - 1) for each in range(count)}


def chance_of(found: dict[int, int], law: Law) -> float:
    """Return the p value of Pearson's test of counts against a law; 0 if what is impossible came."""
    count = sum(found.values())
    cells: Counter[int] = Counter()
    expected: Counter[int] = Counter()
    for answer, probability in law.items():
        place = answer if count * probability >= LEAST else 10**9
        expected[place] += count * probability  # type: ignore[assignment]
        cells[place] += found.get(answer, 0)
    if sum(cells.values()) != count:
        return 0.0
    used = [place for place in expected if expected[place] > 0.0]
    if len(used) == 1:
        return 1.0
    wanted = np.array([expected[place] for place in used], dtype=np.float64)
    return float(chisquare([cells[place] for place in used], wanted * count / wanted.sum()).pvalue)


def answered(wire: dict[str, Any], value: float, count: int, twin: str = "") -> dict[int, int]:
    """Return how often the agent in JavaScript gives each answer."""
    asked: dict[str, Any] = {"mechanism": wire, "value": value, "word": str(WORD), "count": count, "twin": twin}
    if wire in OF_ITEMS:
        asked |= {"item": str(ITEM), "domain": str(DOMAIN)}
    with node("laws.js") as process:
        output, _ = process.communicate(json.dumps(asked))
    return {int(answer): count for answer, count in json.loads(output).items()}


def hold_laws(count: int) -> bool:
    """Print a p value for each mechanism, and for each twin; return whether the twins alone fail."""
    tests = [(wire, value, "") for wire in OF_VALUES for value in (0.0, 0.3, 1.0)]
    tests += [(wire, 0.0, "") for wire in OF_ITEMS] + [(wire, 0.3, twin) for twin, wire in TWINS]
    good = True
    for wire, value, twin in tests:
        chance = chance_of(answered(wire, value, count, twin), law(wire, value))
        low = chance < SIGNIFICANT / len(tests)
        good &= low == bool(twin)
        about = "" if wire in OF_ITEMS else f" of {value:g}"
        verdict = "differs from the law" if low else "agrees with the law"
        print(f"{wire['name']:<13}{about:<7} p = {chance:<10.3g} {verdict}{twin and f': {twin}'}", flush=True)
    return good


def main() -> int:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", dest="questions", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    different = []
    for what, script, made in (("questions", "questions.js", cases), ("messages", "messages.js", messages.cases)):
        count, unlike = compared(vars(options)[what], options.seed, script, made)
        for each in unlike[:10]:
            print(json.dumps(each)[:2000])
        print(f"{count:,} {what}, {len(unlike):,} of which the agents decide or compute differently", flush=True)
        different += unlike
    good = hold_laws(options.answers) if options.answers else True
    return 0 if good and not different else 1


if __name__ == "__main__":
    sys.exit(main())
