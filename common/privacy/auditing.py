"""An empirical privacy auditor: a lower confidence bound on the epsilon of any randomized function.

The function is run on two neighbouring inputs. One half of the runs is searched for the event that distinguishes the
inputs best. The other half, which the search does not use, bounds the two probabilities of that event (Clopper and
Pearson 1934)::

    epsilon >= ln((p_low - delta) / q_high)

If the function is (epsilon, delta)-DP, the bound exceeds epsilon with probability at most ``failure``, however the
event was found: only one event is tested. A broken function need not be caught, so every audit has broken twins.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv

from common.core.arrays import AnyArray, Floats, Indices
from common.numerics.randomness import RandomSource

Subject = Callable[[Any, int, RandomSource], AnyArray]
"""(input, runs, randomness) -> outputs, shape (runs,) or (runs, d): one row per independent run."""
MAX_BINS = 64
LOOKS = ((1 / 16, 0.05), (1 / 4, 0.05), (1 / 2, 0.05), (1.0, 0.85))
"""The audits of :func:`exceeds`: the share of all runs made so far, and the share of the failure probability."""


@dataclass(frozen=True)
class AuditFinding:
    """The result of an audit: ``hits`` of ``runs`` at the chosen event on each input, and the resulting bound."""

    epsilon: float
    hits: tuple[int, int]
    runs: int


def _partition(first: Floats, second: Floats) -> Callable[[Floats], Indices]:
    """Return a map from outputs to cells, learned from runs on both inputs: values if few, else quantile bins.

    Rows of several numbers are projected on the direction in which the two inputs' standardized means differ.
    """
    both = np.concatenate([first, second])
    spread = both.std(axis=0)
    direction = (first.mean(axis=0) - second.mean(axis=0)) / np.where(spread > 0, spread, 1.0) ** 2

    def score(outputs: Floats) -> Floats:
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs @ direction

    values = np.unique(score(both))
    quantiles = np.quantile(score(both), np.linspace(0.0, 1.0, MAX_BINS + 1)[1:-1])
    edges = values[1:] if len(values) <= MAX_BINS else np.unique(quantiles)
    return lambda outputs: np.bincount(np.searchsorted(edges, score(outputs), side="right"), minlength=len(edges) + 1)


def audit(
    subject: Subject,
    inputs: tuple[Any, Any],
    source: RandomSource,
    *,
    runs: int,
    delta: float = 0.0,
    failure: float = 1e-6,
) -> AuditFinding:
    """Bound the epsilon of ``subject`` at ``delta`` from below, on two neighbouring inputs, in both directions.

    Args:
        subject: The randomized function; non-finite outputs count as values of their own.
        runs: Runs on each input for the search, and again as many for the bound.
        failure: Probability that a private function gets a bound above its epsilon.
    """
    searched = [_rows(subject(value, runs, source.derive("search", i))) for i, value in enumerate(inputs)]
    tested = [_rows(subject(value, runs, source.derive("test", i))) for i, value in enumerate(inputs)]
    return _finding(searched, tested, delta, failure)


def _finding(searched: Sequence[Floats], tested: Sequence[Floats], delta: float, failure: float) -> AuditFinding:
    count, runs = _partition(*searched), len(tested[0])
    counts = [count(outputs) for outputs in searched]
    best, event, direction = -math.inf, np.zeros(len(counts[0]), dtype=bool), 1
    for forward in (1, -1):
        p, q = counts[::forward]
        order = np.argsort(-(p + 0.5) / (q + 0.5), kind="stable")
        bounds = [
            _bound(int(a), int(b), runs, delta, failure)
            for a, b in zip(np.cumsum(p[order]), np.cumsum(q[order]), strict=True)
        ]
        place = int(np.argmax(bounds))
        if bounds[place] > best:
            best, direction = bounds[place], forward
            event = np.isin(np.arange(len(p)), order[: place + 1])
    hits, false_hits = (int(count(outputs)[event].sum()) for outputs in tested[::direction])
    return AuditFinding(max(0.0, _bound(hits, false_hits, runs, delta, failure)), (hits, false_hits), runs)


def exceeds(
    subject: Subject,
    inputs: tuple[Any, Any],
    source: RandomSource,
    *,
    epsilon: float,
    runs: int,
    delta: float = 0.0,
    failure: float = 1e-6,
) -> bool:
    """Return whether ``subject`` is shown not to be (epsilon, delta)-DP; stops at the first audit that shows it.

    Makes up to ``len(LOOKS)`` audits, each on the runs of the previous one and more, with its share of ``failure``. By
    the union bound, which needs no independence, a private function is rejected with probability at most ``failure``.
    ``runs`` are those of the last audit; all else is as in :func:`audit`.
    """
    batches: dict[tuple[str, int], list[Floats]] = {(half, i): [] for half in ("search", "test") for i in range(2)}
    start = 0
    for look, (part, risk) in enumerate(LOOKS):
        stop = round(part * runs)
        for (half, i), outputs in batches.items():
            outputs.append(_rows(subject(inputs[i], stop - start, source.derive("look", look, half, i))))
        searched, tested = ([np.concatenate(batches[half, i]) for i in range(2)] for half in ("search", "test"))
        start = stop
        if _finding(searched, tested, delta, risk * failure).epsilon > epsilon:
            return True
    return False


def _bound(hits: int, false_hits: int, runs: int, delta: float, failure: float) -> float:
    low = float(betaincinv(hits, runs - hits + 1, failure / 2)) if hits else 0.0
    high = float(betaincinv(false_hits + 1, runs - false_hits, 1 - failure / 2)) if false_hits < runs else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def _rows(outputs: AnyArray) -> Floats:
    table = np.asarray(outputs, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table.reshape(len(table), -1)
    return np.nan_to_num(table, nan=1e100, posinf=1e101, neginf=-1e101)
