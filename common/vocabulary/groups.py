"""Public groups of people: by which of some features is theirs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from common.core.arrays import AnyArray, Indices

MAX_GROUPS = 31

Groups = Annotated[tuple[Annotated[int, Field(ge=0, lt=1 << 16)], ...], Field(max_length=MAX_GROUPS)]
"""Features: group g is of those whose feature ``groups[g]`` is above 1/2, the first of several. Who has none is in a
last group; without any feature all are in one group."""


def number_of(groups: tuple[int, ...]) -> int:
    """Return how many groups there are, with the last one."""
    return len(groups) + 1 if groups else 1


def group_of(features: AnyArray, groups: tuple[int, ...]) -> Indices:
    """Return each row's group, shape (n,), int64."""
    if not groups:
        return np.zeros(len(features), dtype=np.int64)
    held = features[:, list(groups)] > 0.5
    return np.where(held.any(axis=1), held.argmax(axis=1), len(groups)).astype(np.int64)
