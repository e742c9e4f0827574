"""The baselines as methods of the tables: what each fits on a split, and with which settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np

from benchmarks.adaptation.candidates import Candidate, Method
from benchmarks.adaptation.datasets.base import Pair, Task
from benchmarks.adaptation.datasets.scaling import NORM
from benchmarks.adaptation.splits import Split
from common.core.arrays import Floats
from curator.learners.discrepancy import discrepancy
from curator.learners.domains import Domains, DomainSide, Loss, least_squares, logistic_in_ball
from curator.learners.source_weights import KernelMeanMatching, Penalties, alternate, match

RIDGE = 1e-5
"""Penalty of all logistic fits but the private ones: the largest at which nothing changes in the third digit."""
MAX_MATCHED = 4096
"""Source rows that kernel mean matching takes at most: its matrix has their square."""
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.9)


def train_on_source(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit the source alone."""
    yield Candidate(_fit(pair, split.source, _equal(split.source)))


def train_on_target(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit the target's training rows alone."""
    yield Candidate(_fit(pair, split.train, _equal(split.train)))


def kernel_mean_matching(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit the source, weighted by kernel mean matching with the training rows' features."""
    rows, matching = _matching(split.source)
    shares = matching.weights(split.train.features)
    yield Candidate(_fit(pair, rows, shares / shares.sum()))


def discrepancy_minimization(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit the source, weighted by discrepancy minimization with the training rows' features."""
    matched = match(split.source.features, split.train.features)
    found = {"norm": matched.norm, "least": matched.least}
    yield Candidate(_fit(pair, split.source, matched.shares), found)


def best_effort(pair: Pair, split: Split) -> Iterator[Candidate]:
    """Fit by SBest over a grid of alpha and of penalties, in units of the loss of training on the target.

    With l that loss and d the discrepancy: lambda_1 of 2 l leaves most of the source out, d + 2 l and d + 20 l let it
    in; lambda_2 is 0 or l sqrt(n); lambda_inf is 0: others changed next to nothing, and take ten
    times longer.
    """
    least = training_loss(pair, split)
    apart = discrepancy(Domains(split.source, split.train), pair.radius, NORM, loss_of(split.task)).value
    together = DomainSide(
        np.concatenate([split.source.features, split.train.features]),
        np.concatenate([split.source.responses, split.train.responses]),
    )
    sizes = (len(split.source), len(split.train))
    extra = np.repeat([apart, 0.0], sizes)
    for alpha, one, two in product(ALPHAS, (2.0 * least, apart + 2.0 * least, apart + 20.0 * least), (0.0, 1.0)):
        caps = np.repeat([alpha / sizes[0], (1.0 - alpha) / sizes[1]], sizes)
        penalties = Penalties(one, two * least * sizes[1] ** 0.5, 0.0)
        fitted = alternate(
            lambda shares, start: _fit(pair, together, shares, start),
            lambda weights: _losses(pair, together, weights),
            extra,
            caps,
            penalties,
        )
        settings = {"alpha": alpha, "lambda_1": penalties.one, "lambda_2": penalties.two}
        yield Candidate(fitted.weights, settings)


def loss_of(task: Task) -> Loss:
    """Return the loss that a task's linear fits minimize."""
    return "squared" if task == "regression" else "logistic"


def training_loss(pair: Pair, split: Split) -> float:
    """Return the mean loss of training on the target, on the training rows: the unit of penalties."""
    return float(_losses(pair, split.train, _fit(pair, split.train, _equal(split.train))).mean())


BASELINES: dict[str, Method] = {
    "train on source": train_on_source,
    "train on target": train_on_target,
    "KMM": kernel_mean_matching,
    "DM": discrepancy_minimization,
    "SBest": best_effort,
}


def _equal(side: DomainSide) -> Floats:
    return np.full(len(side), 1.0 / len(side))


def _fit(pair: Pair, side: DomainSide, shares: Floats, start: Floats | None = None) -> Floats:
    if pair.task == "regression":
        return least_squares(side, shares, pair.radius)
    return logistic_in_ball(side, shares, RIDGE, pair.radius, start)


def _losses(pair: Pair, side: DomainSide, weights: Floats) -> Floats:
    scores = side.features @ weights
    if pair.task == "regression":
        return np.asarray((scores - side.responses) ** 2)
    return np.logaddexp(0.0, -side.responses * scores)


@lru_cache(maxsize=16)
def _matching(source: DomainSide) -> tuple[DomainSide, KernelMeanMatching]:
    """Return the source's rows, or a random part of them, and the matching that belongs to them."""
    rows = np.random.default_rng(0).permutation(len(source))[:MAX_MATCHED]
    taken = DomainSide(source.features[rows], source.responses[rows])
    return taken, KernelMeanMatching(taken.features)
