"""How fast are the hot paths? Work per second of each, the best of three runs, and what limits it.

python -m benchmarks.kernels [--n 4000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from common.crypto.identity import Identity
from common.data.distributions.base import parse_distribution
from common.data.population import SimulatedRecordSource
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.local.mechanisms.mechanism import Warner
from common.local.queries.query import LossQuery
from common.local.records import Records
from common.net import messages
from common.numerics import chacha
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from, parse_learner
from curator.mechanisms.gaussian_noise import normals
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing
from local_agent.hosted.population import Population
from local_agent.policy import PersonalPolicy
from referee.collection.order import Order

BALL = {"name": "gaussian-ball", "side": "target", "d": 8, "close": 2, "sigma_source": 0.1, "sigma_target": 0.07}
PLANE = Linear(weights=(1.0,) * 8, threshold=0.0)
AGENTS = 1_000_000


def best(work: Callable[[], object], amount: int) -> float:
    """Return the most units per second over three runs, after one warm-up run."""
    work()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return amount / min(seconds)


def answer_all(folder: Path) -> Callable[[], object]:
    """Return a function in which all agents of a fresh hosted population answer one question each."""
    referee = Identity.create()
    scenario = {"agents": {"mechanism": Warner(epsilon=0.5).wire()}}
    order = ({"first": 0, "agents": AGENTS, "used": 0, "sha256": "0" * 64},)
    run = {"run": "r", "referee": referee.public, "scenario": scenario, "order": order}
    configuration = messages.Configuration.parse(run)
    everybody = messages.pack_indices(np.arange(AGENTS))
    asked = messages.Assignment(
        run="r",
        digest=configuration.fingerprint(),
        question=1,
        query=LossQuery(hypothesis=PLANE),
        people=everybody,
        slots=everybody,
    )
    sealed = [referee.sign(m.KIND, m.wire()) for m in (asked, configuration)]
    people = SimulatedRecordSource(parse_distribution(BALL), 1, AGENTS)
    count = iter(range(100))

    def work() -> None:
        state = folder / str(next(count))
        population = Population(people, PersonalPolicy(referee.public, 0.5), state, RandomSource.seeded(1))
        population.answer(sealed[0], sealed[1])
        population.close()

    return work


def measure(n: int) -> list[dict[str, str | float]]:
    """Measure everything; n records where a sample is needed."""
    source = RandomSource.seeded(1)
    population = SimulatedRecordSource(parse_distribution(BALL), 1, n)
    records: Records = population.records(np.arange(n))
    weights = Reweighing(n, 0.1, 0.1)
    sample = LocalSample.from_records(records)
    sampler = weights.sampler(sample)
    learner = {"name": "sgd", "steps": 2_000_000, "noise": 2.0, "diameter": 60.0}
    private, plain = parse_learner(learner), parse_learner({**learner, "noise": 0.0})
    key, stream = np.arange(chacha.KEY_WORDS, dtype=np.uint32), np.empty((chacha.BLOCK_WORDS, 1 << 12), dtype=np.uint32)
    bits = np.zeros(10_000_000, dtype=np.uint8)
    warner, order = Warner(epsilon=0.5), Order("seed", 1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            ("simulated people, d = 8", best(lambda: population.records(np.arange(n)), n), "normal quantiles"),
            ("losses of a half-space, d = 8, rows", best(lambda: PLANE.mistakes(records), n), "memory bandwidth"),
            (
                "reweigh, d = 8, rows",
                best(lambda: weights.update(sample, HypothesisLoss(PLANE)), n),
                "memory bandwidth",
            ),
            ("draws from mu, d = 8", best(lambda: sampler.draws(1_000_000, source), 1_000_000), "cache misses"),
            (
                "private SGD steps, d = 8",
                best(lambda: learn_from(private, sampler, source, None), 2_000_000),
                "cache misses",
            ),
            (
                "plain SGD steps, d = 8",
                best(lambda: learn_from(plain, sampler, source, None), 2_000_000),
                "cache misses",
            ),
            ("noise, normals on the grid", best(lambda: normals(1 << 18, source), 1 << 18), "vector arithmetic"),
            (
                "of it the ChaCha8 keystream, bytes",
                best(partial(chacha.fill, key, 0, 0, stream), stream.nbytes),
                "the same",
            ),
            ("randomized responses", best(lambda: warner.randomize(bits, source), len(bits)), "AES keystream"),
            ("agents put in order", best(lambda: order.slice(0, 1_000_000), 1_000_000), "eight mixing rounds"),
            ("hosted agents, question to signed report", best(answer_all(Path(folder)), AGENTS), "drawing the people"),
        ]
    return [{"work": name, "per second": rate, "limit": limit} for name, rate, limit in rows]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=4_000_000, help="records of the curator")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measure(given.n)
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['work']:<45} {row['per second']:>12.3g} /s   limit: {row['limit']}")


if __name__ == "__main__":
    main()
