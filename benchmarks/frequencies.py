"""Frequency oracles side by side with two libraries: errors on the same data, and answers per second.

    .venv/bin/uv pip install --constraint constraints.txt --editable '.[compare]'
    python -m benchmarks.frequencies [--people 1000000] [--json]

The libraries are pure-ldp and multi-freq-ldpy. People hold items of a Zipf law (exponent 1.1) over k items in random
order. For each oracle, epsilon and k, all parties see the same people and estimate the shares of all items; ``error``
is the mean squared error over all items times the number of people, so that it can be held against the exact variance
that the oracle states (``stated``). multi-freq-ldpy returns shares that are clipped at 0 and scaled to a sum of 1:
there, and only there, ours are treated the same (``finish``). As the libraries answer one person at a time, errors are
compared on as many people as they can do; two oracles with the same error have ratios above 1 + ``spread`` once in
10,000 comparisons.

Rates are of one core: people that answer (client), and answers that become estimates of all items (server), each with
the public words that it needs. Ours are measured on ``--people``, or fewer where an item's support is counted answer by
answer; theirs on more and more people, until that takes half a second. Setting a library up (hash tables, permutations)
is not counted. ``large`` is the ratio of errors on the people of their last measurement, from one run: a library that
shares hash functions among people has an error that does not fall with their number, so what it gains in speed it
pays for there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from common.core.arrays import Floats, Indices, Words
from common.local.mechanisms.frequency import FrequencyOracle, public_words
from common.local.mechanisms.mechanism import parse_mechanism
from common.numerics.kernels import njit
from common.numerics.randomness import RandomSource

EPSILONS = (0.5, 1.0, 2.0)
SIZES = {16: (2_000, 200), 1024: (500, 20), 65536: (20, 10)}
"""For each number of items: people, and repetitions, of the comparison of errors."""
MAX_PAIRS = 1 << 33
"""Most answers times items in a measurement of local hashing."""
SECONDS = 0.5
"""Least seconds of a measurement of a library's rates, if there are enough people."""
EQUAL = 0.01
"""Errors this close count as equal. The errors of a Hadamard transform's items add up to the same number in every run,
except if two people have the same row: the spread between runs is then too small by about people/items."""
HASHES = 1024
"""Hash functions of pure-ldp's FastLH, which shares them among people."""

Client = Callable[[list[int]], list[Any]]
Server = Callable[[list[Any]], Floats]


@dataclass(frozen=True)
class Rival:
    """A library's counterpart of an oracle.

    Attributes:
        oracle: The name of Tandem's oracle.
        library, name: The library, and its name for the oracle.
        finish: Post-processing of the shares of both: ``none`` or ``clipped`` (and scaled to a sum of 1).
        most_items: Largest k for which it is measured.
        make: Maps epsilon and k to a client (items to answers) and a server (answers to shares).
    """

    oracle: str
    library: str
    name: str
    finish: str
    most_items: int
    make: Callable[[float, int], tuple[Client, Server]]


@dataclass(frozen=True)
class Rates:
    """Answers per second of one implementation, and on how many people they were measured."""

    people: int
    client: float
    server: float


@dataclass(frozen=True)
class Row:
    """One comparison."""

    oracle: str
    library: str
    counterpart: str
    epsilon: float
    items: int
    people: int
    repetitions: int
    finish: str
    stated: float
    error: float
    their_error: float
    ratio: float
    spread: float
    large: float
    rates: Rates
    their_rates: Rates

    @property
    def as_good(self) -> bool:
        """Whether Tandem's error is not measurably larger."""
        return self.ratio <= 1.0 + EQUAL + self.spread

    @property
    def faster(self) -> float:
        """The speed of Tandem's oracle relative to the library's: the smaller ratio of client and server."""
        return min(self.rates.client / self.their_rates.client, self.rates.server / self.their_rates.server)


def rivals() -> list[Rival]:
    """Return all counterparts; a library that is not installed ends the program with what to install."""
    try:
        import pure_ldp.frequency_oracles as pure
        from multi_freq_ldpy.pure_frequency_oracles import GRR, LH
    except ImportError as error:
        raise SystemExit(
            f"{error}: this comparison needs pure-ldp and multi-freq-ldpy: "
            ".venv/bin/uv pip install --constraint constraints.txt --editable '.[compare]'"
        ) from None

    def same(item: int) -> int:
        return item

    def pair(client: Any, server: Any, parts: int = 1) -> tuple[Client, Server]:
        def estimate(answers: list[Any]) -> Floats:
            server.reset()
            server.aggregate_all(answers)
            server.check_and_update_estimates()
            return np.asarray(server.get_estimates, dtype=np.float64) / (parts * len(answers))

        return lambda items: [client.privatise(item) for item in items], estimate

    def direct(epsilon: float, k: int) -> tuple[Client, Server]:
        return pair(pure.DEClient(epsilon, k, same), pure.DEServer(epsilon, k, same))

    def hashing(epsilon: float, k: int) -> tuple[Client, Server]:
        settings = {"use_olh": True, "index_mapper": same}
        return pair(pure.LHClient(epsilon, k, **settings), pure.LHServer(epsilon, k, **settings))

    def fast_hashing(epsilon: float, k: int) -> tuple[Client, Server]:
        settings = {"use_olh": True, "index_mapper": same}
        client, server = pure.FastLHClient(epsilon, k, HASHES, **settings), FastServer(epsilon, k, HASHES, **settings)
        return pair(client, server)

    class FastServer(pure.FastLHServer):  # type: ignore[misc]  # the library has no types
        def reset(self) -> None:
            super().reset()
            self.hash_counts = np.zeros((self.k, self.g))

    def hadamard(epsilon: float, k: int) -> tuple[Client, Server]:
        server = pure.HadamardResponseServer(epsilon, k, same)
        return pair(pure.HadamardResponseClient(epsilon, k, server.get_hash_funcs(), same), server)

    def hadamard_bit(epsilon: float, k: int) -> tuple[Client, Server]:
        return pair(
            pure.HadamardMechClient(epsilon, k, 1, index_mapper=same),
            pure.HadamardMechServer(epsilon, k, 1, index_mapper=same),
        )

    def response(epsilon: float, k: int) -> tuple[Client, Server]:
        return (
            lambda items: [GRR.GRR_Client(item, k, epsilon) for item in items],
            lambda answers: GRR.GRR_Aggregator_MI(answers, k, epsilon),
        )

    def multi_hashing(epsilon: float, k: int) -> tuple[Client, Server]:
        return (
            lambda items: [LH.LH_Client(item, k, epsilon) for item in items],
            lambda answers: LH.LH_Aggregator_MI(answers, k, epsilon),
        )

    most = max(SIZES)
    return [
        Rival("krr", "pure-ldp", "DE", "none", most, direct),
        Rival("krr", "multi-freq-ldpy", "GRR", "clipped", most, response),
        Rival("olh", "pure-ldp", "LH, optimal", "none", most, hashing),
        Rival("olh", "pure-ldp", "FastLH", "none", 1024, fast_hashing),
        Rival("olh", "multi-freq-ldpy", "LH, optimal", "clipped", most, multi_hashing),
        Rival("hadamard", "pure-ldp", "HR", "none", most, hadamard),
        Rival("hadamard", "pure-ldp", "HadamardMech, 1 bit", "none", most, hadamard_bit),
    ]


def zipf(k: int, people: int, seed: int) -> Words:
    """Draw items with probabilities proportional to 1/rank^1.1, the ranks in random order."""
    generator = np.random.default_rng([seed, k])
    chances = np.arange(1, k + 1) ** -1.1
    ranks = generator.choice(k, people, p=chances / chances.sum())
    return generator.permutation(k)[ranks].astype(np.uint64)


def true_shares(items: Words, k: int) -> Floats:
    """Return the share of people that hold each item."""
    counts: Indices = np.bincount(items.astype(np.int64), minlength=k)
    return counts / len(items)


def finished(shares: Floats, finish: str) -> Floats:
    """Clip and scale shares if ``finish`` requires it."""
    if finish == "none":
        return shares
    clipped = np.maximum(shares, 0.0)
    return clipped / max(float(clipped.sum()), 1e-300)


def made(name: str, epsilon: float) -> FrequencyOracle:
    """Return one of Tandem's oracles."""
    oracle = parse_mechanism({"name": name, "epsilon": epsilon})
    if not isinstance(oracle, FrequencyOracle):
        raise SystemExit(f"{name} is no frequency oracle")
    return oracle


def ours(oracle: FrequencyOracle, items: Words, k: int, seed: int) -> tuple[Floats, float, float]:
    """Return estimates of all shares, and the seconds that clients and server took."""
    slots, source = np.arange(len(items)), RandomSource.seeded(seed, "answers")
    began = time.perf_counter()
    answers = oracle.randomize(items, k, public_words(seed, slots), source)
    middle = time.perf_counter()
    nothing, bits = np.zeros(1, dtype=np.uint64), (k - 1).bit_length()
    if oracle.name == "hadamard":  # by a transform
        supports = oracle.extended_supports(answers, k, public_words(seed, slots), nothing, bits)[0, :k]
    else:
        supports = oracle.supports(answers, k, public_words(seed, slots), np.arange(k, dtype=np.uint64))
    shares = oracle.shares(supports, len(items), k)
    return shares, middle - began, time.perf_counter() - middle


def our_rates(oracle: FrequencyOracle, k: int, people: int) -> Rates:
    """Measure one of Tandem's oracles: the best of three runs, after one warm-up run."""
    measured = min(people, MAX_PAIRS // k) if oracle.name == "olh" else people
    items = zipf(k, measured, 0)
    runs = [ours(oracle, items, k, seed) for seed in range(4)][1:]
    return Rates(measured, measured / min(run[1] for run in runs), measured / min(run[2] for run in runs))


def their_rates(client: Client, server: Server, k: int, people: int) -> tuple[Rates, Words, Floats]:
    """Measure a library on more and more people, until that takes :data:`SECONDS` or their number is ``people``.

    Returns:
        Its rates, and the items of the last people with its estimates of their shares.
    """
    server(client(zipf(k, 10, 0).tolist()))
    measured = min(100, people)
    while True:
        items = zipf(k, measured, 0)
        given = items.tolist()
        began = time.perf_counter()
        answers = client(given)
        middle = time.perf_counter()
        shares = server(answers)
        ended = time.perf_counter()
        if ended - began >= SECONDS or measured == people:
            return Rates(measured, measured / (middle - began), measured / (ended - middle)), items, shares
        measured = min(4 * measured, people)


def compare(rival: Rival, epsilon: float, k: int, rates: Rates) -> Row:
    """Compare errors on the same people again and again, and measure the library's rates."""
    people, repetitions = SIZES[k]
    oracle = made(rival.oracle, epsilon)
    seed_everything(1)
    client, server = rival.make(epsilon, k)
    errors = np.empty((repetitions, 2))

    def both(items: Words, theirs: Floats, seed: int) -> tuple[float, float]:
        truth, found = true_shares(items, k), finished(ours(oracle, items, k, seed)[0], rival.finish)
        one, other = (len(items) * float(np.mean((shares - truth) ** 2)) for shares in (found, theirs))
        return one, other

    for repetition in range(repetitions):
        items = zipf(k, people, 1 + repetition)
        errors[repetition] = both(items, server(client(items.tolist())), 1 + repetition)
    error, their_error = (float(mean) for mean in errors.mean(axis=0))
    ratio = error / their_error
    deviation = float(np.std(errors[:, 0] - ratio * errors[:, 1], ddof=1)) / their_error
    speed, last_items, last_shares = their_rates(client, server, k, rates.people)
    large = both(last_items, last_shares, 0)
    return Row(
        oracle=rival.oracle,
        library=rival.library,
        counterpart=rival.name,
        epsilon=epsilon,
        items=k,
        people=people,
        repetitions=repetitions,
        finish=rival.finish,
        stated=oracle.variance(1.0 / k, k),  # linear in the share, and the mean share is 1/k
        error=error,
        their_error=their_error,
        ratio=ratio,
        spread=float(student.isf(1e-4, repetitions - 1)) * deviation / math.sqrt(repetitions),
        large=large[0] / large[1],
        rates=rates,
        their_rates=speed,
    )


@njit
def _seed_compiled(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002 - it is what they use


def seed_everything(seed: int) -> None:
    """Seed the global generators that the libraries draw from."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - it is what they use
    _seed_compiled(seed)


def rows(everybody: Sequence[Rival], people: int) -> Iterator[Row]:
    """Measure all rows."""
    for k in SIZES:
        for name in dict.fromkeys(rival.oracle for rival in everybody):
            for epsilon in EPSILONS:
                rates = our_rates(made(name, epsilon), k, people)
                for rival in everybody:
                    if rival.oracle == name and k <= rival.most_items:
                        yield compare(rival, epsilon, k, rates)


def line(row: Row) -> str:
    """Return a row of the table."""
    name = f"{row.library} {row.counterpart}"
    error = f"{row.error:10.4g} {row.their_error:10.4g} {row.ratio:6.3f} +-{row.spread:5.3f} {row.large:6.3f}"
    pairs = [(row.rates.client, row.their_rates.client), (row.rates.server, row.their_rates.server)]
    speed = " ".join(f"{rate:9.2e} {theirs:9.2e}" for rate, theirs in pairs) + f" {row.faster:9.1f}"
    return f"{row.oracle:<8} {name:<29} {row.epsilon:3g} {row.items:6d} {row.stated:10.4g} {error} {speed}"


def summary(found: Sequence[Row]) -> str:
    """Return a summary of all rows."""
    good = sum(row.as_good for row in found)
    least = min(found, key=lambda row: row.faster)
    where = f"{least.oracle} beside {least.library} {least.counterpart}, k = {least.items}"
    return (
        f"errors equal or better in {good} of {len(found)} comparisons; "
        f"at least {least.faster:.0f} times as fast ({where})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=1_000_000, help="people of a measurement of our rates")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    everybody = rivals()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if not given.json:
        print(
            f"{'oracle':<8} {'counterpart':<29} {'eps':>3} {'k':>6} {'stated':>10} {'error':>10} {'theirs':>10} "
            f"{'ratio':>15} {'large':>6} {'client/s':>9} {'theirs':>9} {'server/s':>9} {'theirs':>9} {'times':>9}"
        )
    found = []
    for row in rows(everybody, given.people):
        found.append(row)
        if not given.json:
            print(line(row), flush=True)
    if given.json:
        verdicts = ("as_good", "faster")
        print(json.dumps([asdict(row) | {name: getattr(row, name) for name in verdicts} for row in found], indent=2))
    else:
        print(summary(found))


if __name__ == "__main__":
    main()
