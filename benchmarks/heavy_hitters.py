"""Searches for heavy hitters of {0,1}^64: which finds most, with the same answers and the same privacy.

    python -m benchmarks.heavy_hitters [--agents 100000] [--runs 20] [--json]

Each agent answers once, at epsilon = 1; a list is wrong with probability at most .05. Two searches are compared:

* prefix extending (``common/statistics/heavy_hitters.py``), with Hadamard response and with optimized local
  hashing, each with the prefixes that suit it;
* TreeHist (Bassily, Nissim, Stemmer and Thakurta 2017): the tree of prefixes grows bit by bit, and what is not above
  the noise is pruned. It starts at 16 bits, and a quarter of the agents is kept for whole items: both are better than
  to start at the root with as many agents for each level.

The data: *planted* items with the shares that are printed, all others uniform; and *Zipf*, item r of 100,000 with a
share proportional to r^-1.1, where the most frequent ones are counted until the first that is missed. ``95%`` is the
least planted share found in 95 of 100 runs, and all greater ones as well.
``--agents 100000 1000000`` takes some 20 minutes: most of it is local hashing, where each candidate is compared with
each answer.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np

from common.core.arrays import Floats, Words
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import parse_mechanism
from common.local.queries.features import ItemQuery
from common.local.queries.query import Answers
from common.numerics.randomness import RandomSource
from common.statistics.frequency import binomial_intervals, reports_by_length
from common.statistics.heavy_hitters import find, ladder

BITS, EPSILON, BETA = 64, 1.0, 0.05
KINDS = 100_000
Search = Callable[[ItemQuery, FrequencyOracle, Answers], Words]


@dataclass(frozen=True)
class Row:
    """The results of one search on one kind of data.

    ``found`` and ``wrong`` are means over runs: of planted (or first Zipf) items, and of items that no agent holds.
    """

    search: str
    oracle: str
    data: str
    agents: int
    found: float
    wrong: float
    surely: float | None
    seconds: float


def extend(query: ItemQuery, oracle: FrequencyOracle, answers: Answers) -> Words:
    """Search by prefix extending."""
    return find(query, oracle, answers, BETA)


def tree_hist(query: ItemQuery, oracle: FrequencyOracle, answers: Answers) -> Words:
    """Search like TreeHist: keep the prefixes whose count noise alone reaches with probability at most beta/2."""
    came = reports_by_length(query, answers)
    prefixes: Words = np.zeros(1, dtype=np.uint64)
    before = 0
    for length, some in came.items():
        step, q = length - before, oracle.rates(some.domain)[1]
        counts = oracle.extended_supports(some.answers, some.domain, some.publics, prefixes, step).reshape(-1)
        items = ((prefixes[:, None] << np.uint64(step)) + np.arange(1 << step, dtype=np.uint64)).reshape(-1)
        kept = binomial_intervals(counts, len(some), BETA / len(items))[0] > q
        prefixes, before = np.asarray(items[kept], dtype=np.uint64), length
        if not len(prefixes):
            break
    return prefixes


SEARCHES: dict[str, Search] = {"prefix extending": extend, "TreeHist": tree_hist}


def lengths(search: str, oracle: FrequencyOracle) -> tuple[int, ...]:
    """Return the lengths of the prefixes that a search asks for."""
    return ladder(BITS, oracle) if search == "prefix extending" else (*range(16, BITS), *[BITS] * 16)


def planted_shares(agents: int) -> Floats:
    """Return the shares of the planted items."""
    small = np.array([0.17, 0.14, 0.115, 0.095, 0.078, 0.064, 0.052])
    if agents <= 150_000:
        return np.concatenate([[0.25], small])
    return np.concatenate([[0.2, 0.12, 0.08], small * (100_000 / agents) ** 0.5])


def people(shares: Floats, agents: int, source: RandomSource) -> tuple[Words, Words]:
    """Return items with these shares, and the items of ``agents`` people; the rest of them have uniform items."""
    heavy = source.words(len(shares))
    which = np.searchsorted(np.cumsum(shares), source.uniforms(agents), side="right")
    return heavy, np.where(which < len(heavy), heavy[np.minimum(which, len(heavy) - 1)], source.words(agents))


def asked(query: ItemQuery, oracle: FrequencyOracle, items: Words, source: RandomSource) -> Answers:
    """Return the answers of agents with these items."""
    slots = np.arange(len(items))
    cut = np.uint64(query.bits) - np.array(query.lengths, dtype=np.uint64)[slots % len(query.lengths)]
    said = oracle.randomize(items >> cut, query.domain, public_words(query.public, slots), source)
    return Answers(len(items), said, slots)


def measure(search: str, oracle: FrequencyOracle, data: str, agents: int, runs: int) -> Row:
    """Run one search on one kind of data, again and again."""
    zipf = np.arange(1, KINDS + 1) ** -1.1
    shares = planted_shares(agents) if data == "planted" else zipf / zipf.sum()
    prefixes = lengths(search, oracle)
    hits, wrong, took = np.zeros((runs, len(shares)), dtype=bool), 0, 0.0
    for run in range(runs):
        source = RandomSource.seeded(run, data, agents)
        heavy, items = people(shares, agents, source)
        query = ItemQuery(bits=BITS, prefixes=prefixes, public=run)
        answers = asked(query, oracle, items, source)
        began = time.perf_counter()
        listed = SEARCHES[search](query, oracle, answers)
        took += time.perf_counter() - began
        hits[run] = np.isin(heavy, listed)
        wrong += int((~np.isin(listed, items)).sum())
    found = hits.sum() if data == "planted" else np.cumprod(hits, axis=1).sum()
    sure = int(np.cumprod(hits.mean(axis=0) >= 0.95).sum()) if data == "planted" else 0
    return Row(
        search,
        oracle.name,
        data,
        agents,
        found=float(found / runs),
        wrong=wrong / runs,
        surely=float(shares[sure - 1]) if sure else None,
        seconds=took / runs,
    )


def rows(sizes: list[int], runs: int) -> Iterator[Row]:
    """Measure every search."""
    for agents in sizes:
        for data in ("planted", "Zipf"):
            for search in SEARCHES:
                for name in ("hadamard", "olh"):
                    oracle = parse_mechanism({"name": name, "epsilon": EPSILON})
                    assert isinstance(oracle, FrequencyOracle)
                    yield measure(search, oracle, data, agents, runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[100_000])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = rows(given.agents, given.runs)
    if given.json:
        print(json.dumps([asdict(row) for row in found]))
        return
    head = f"{'search':<17} {'oracle':<9} {'data':<8} {'agents':>8}"
    print(f"{head} {'found':>6} {'wrong':>6} {'95%':>6} {'seconds':>8}")
    for row in found:
        surely = "-" if row.surely is None else f"{row.surely:.3f}"
        numbers = f"{row.found:6.2f} {row.wrong:6.2f} {surely:>6} {row.seconds:8.2f}"
        print(f"{row.search:<17} {row.oracle:<9} {row.data:<8} {row.agents:8d} {numbers}", flush=True)
    for agents in given.agents:
        print(f"planted among {agents}: " + ", ".join(f"{share:.3f}" for share in planted_shares(agents)))


if __name__ == "__main__":
    main()
