"""Sets of features, as they travel: feature numbers, each once, in order."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from common.vocabulary.hypotheses.linear import MAX_WEIGHTS


def _increasing(features: tuple[int, ...]) -> tuple[int, ...]:
    if any(after <= before for before, after in pairwise(features)):
        raise ValueError("features must be strictly increasing")
    return features


FeatureSet = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_WEIGHTS)], ...], AfterValidator(_increasing)]
"""Feature numbers, strictly increasing, each below 65536: one encoding of each set."""
