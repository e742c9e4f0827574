"""The same bits on every processor: compiled for this machine and for the generic target, loops agree."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from common.data.distributions.base import parse_distribution
from common.data.population import SimulatedRecordSource
from common.local.hypotheses.hypothesis import Linear
from common.local.losses import HypothesisLoss
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from
from curator.learners.half_spaces import FullBatch, Sgd
from curator.learners.noisy_descent import Forces, move_rows
from curator.learners.svm import Svm
from curator.mechanisms.gaussian_noise import normals
from curator.sample.base import LocalSample
from curator.sample.reweighing import Reweighing, Sampler
from curator.sample.rows import FixedRows, Grid, SingleRows
from deploy.simulation import conduct
from tests.support import tiny

PEOPLE = 3000


@cache
def people(dimension: int) -> Records:
    ball = {"name": "gaussian-ball", "side": "source", "close": 2, "sigma_source": 1.0, "sigma_target": 0.7}
    law = parse_distribution({**ball, "d": dimension, "center": 1.0, "norm": 3.0})
    return SimulatedRecordSource(law, 1, PEOPLE).records(np.arange(PEOPLE))


def sampler(dimension: int, *, fixed: bool) -> Sampler:
    records = people(dimension)
    rows = FixedRows.from_records(records, Grid.between(-3.0, 3.0)) if fixed else SingleRows(records)
    sample, weights = LocalSample([rows]), Reweighing(PEOPLE, 0.3, 0.4)
    generator = np.random.default_rng(2)
    for _ in range(2):
        plane = Linear(weights=tuple(generator.normal(size=dimension).tolist()), threshold=0.3)
        weights.update(sample, HypothesisLoss(plane))
    return weights.sampler(sample)


def draw() -> bytes:
    drawn = sampler(19, fixed=False).draws(500, RandomSource.seeded(3))
    return people(19).features.tobytes() + drawn.features.tobytes()


def noise() -> bytes:
    return normals(1 << 18, RandomSource.seeded(4)).tobytes() + RandomSource.seeded(4).normals(5000).tobytes()


def descend(learner: Sgd, dimension: int, *, fixed: bool) -> bytes:
    learned = learn_from(learner, sampler(dimension, fixed=fixed), RandomSource.seeded(5), None)
    return repr(learned).encode()


def separate() -> bytes:
    learner = Svm(draws=2000, penalty=1.0)
    return repr(learn_from(learner, sampler(19, fixed=False), RandomSource.seeded(6), None)).encode()


def full_batch() -> bytes:
    learner = FullBatch(mu=2.0, norm=3.0)
    return repr(learn_from(learner, sampler(19, fixed=False), RandomSource.seeded(9), None)).encode()


def margins() -> bytes:
    records = people(19)
    plane = Linear(weights=tuple(np.random.default_rng(7).normal(size=19).tolist()), threshold=0.2)
    return plane.margins(records.features).tobytes() + plane.gaps(records.features, np.arange(PEOPLE)).tobytes()


def adapt() -> bytes:
    records, generator = people(19), np.random.default_rng(8)
    scales, sums = 1.0 + generator.random(PEOPLE), np.zeros(19, dtype=np.int32)
    forces = Forces(1, 1e-3, 5.0, 1e5, 1e6, 0.1, 0.2, False, 0.3, 0.4, 50.0, 1e-3, 0.5)
    weights, whole = generator.normal(size=19).astype(np.float32), np.rint(generator.normal(size=PEOPLE) * 100)
    move_rows(records.features, records.labels.astype(np.float64), weights, whole, scales, sums, forces)
    return scales.tobytes() + sums.tobytes()


def run() -> bytes:
    rounds: list[str] = []
    outcome = conduct(tiny(), 1, lambda number, hypothesis: rounds.append(repr(hypothesis)))
    return repr((rounds, outcome)).encode()


WORK: dict[str, Callable[[], bytes]] = {
    "people and draws": draw,
    "noise": noise,
    "descent, up to eight features": lambda: descend(
        Sgd(steps=3000, noise=0.5, diameter=6.0, loss="hinge", domain="box", start=0.5), 5, fixed=True
    ),
    "descent, single precision, decoding": lambda: descend(
        Sgd(steps=3000, noise=0.5, diameter=6.0, loss="hinge"), 77, fixed=True
    ),
    "Newton's method": separate,
    "full batch": full_batch,
    "margins": margins,
    "adaptation": adapt,
    "a whole run": run,
}

ROOT = Path(__file__).parents[3]
OLD = {
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    # Libraries, too, do as if this were a processor without vectors of AVX and without fused multiply-adds.
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
    "OPENBLAS_CORETYPE": "Nehalem",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4,-AVX512F",
}


def digests() -> dict[str, str]:
    return {name: hashlib.sha256(work()).hexdigest() for name, work in WORK.items()}


def computed(**target: str) -> dict[str, str]:
    """Return the digests of a process of its own, whose loops are compiled for a target, and kept as always."""
    kept = {key: value for key, value in os.environ.items() if key not in OLD}
    environment = {**kept, "PYTHONPATH": str(ROOT), **target}
    command = [sys.executable, "-m", "tests.common.numerics.test_targets"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.thorough
@pytest.mark.skipif(platform.machine() != "x86_64", reason="its targets are those of x86-64")
def test_every_target_computes_the_same_bits() -> None:
    assert digests() == computed(**OLD)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))
