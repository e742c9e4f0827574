"""What a method offers for one split: fitted weights, each with its settings; the validation rows choose among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.adaptation.datasets.base import Pair, Task
from benchmarks.adaptation.splits import Split
from common.core.arrays import Floats
from curator.learners.domains import DomainSide


@dataclass(frozen=True, eq=False)
class Candidate:
    """Weights w, shape (d,), and the settings that led to them."""

    weights: Floats
    settings: dict[str, Any] = field(default_factory=dict)


Method = Callable[[Pair, Split], Iterable[Candidate]]
"""Fits a method on a split's source and training rows, once for each of its settings."""


def score(task: Task, side: DomainSide, weights: Floats) -> float:
    """Return the mean squared error (less is better), or the share of labels found (more is better)."""
    scores = side.features @ weights
    if task == "regression":
        return float(np.mean((scores - side.responses) ** 2))
    return float(np.mean(np.where(scores >= 0.0, 1.0, -1.0) == side.responses))


def best(split: Split, candidates: Iterable[Candidate]) -> Candidate:
    """Return the candidate that is best on the validation rows, the first of equals."""
    sign = -1.0 if split.task == "regression" else 1.0
    return max(candidates, key=lambda candidate: sign * score(split.task, split.validation, candidate.weights))
