"""A table, models over it, and rows with everything that rows can hold."""

from typing import Any

import numpy as np

from common.core.errors import BadInput
from common.data.schema import Schema
from common.local.hypotheses.hypothesis import Hypothesis
from common.models.model import Model

LABEL = {"column": "renews", "positive": ["yes", "y"], "negative": ["no", "n"]}
FEATURES: list[dict[str, Any]] = [
    {"kind": "number", "column": "visits", "low": -3, "high": 30, "fill": 3},
    {"kind": "number", "column": "months", "low": 0, "high": 60},
    {"kind": "number", "column": "spent", "low": 0.5, "high": 1e6},
    {"kind": "category", "column": "plan", "values": ["basic", ["family", "pro"]]},
    {"kind": "category", "column": "town", "values": ["Bern", "Thun", "Chur"]},
    {"kind": "number", "column": "visits", "low": 0, "high": 10},
]
"""Nine features of five columns, one of which is used twice."""
TEXTS = {"plan": ["basic", "family", "pro", "gold", ""], "town": ["Bern", "Thun", "Chur", "Rom", "?"]}


def table(dimension: int = 9, norm: float | None = None) -> Schema:
    """Return a table of at least as many features."""
    more = [{"kind": "number", "column": f"z{i}", "low": -1, "high": 1} for i in range(max(0, dimension - 9))]
    return Schema.parse({"features": [*FEATURES, *more], "label": LABEL, "norm": norm})


def model_of(hypothesis: Hypothesis, norm: float | None = None, **rest: Any) -> Model:
    chosen = table(hypothesis.min_features, norm)
    return Model(scenario="given", table=chosen, hypothesis=hypothesis, classes=("no", "yes"), **rest)


def usable(model: Model) -> bool:
    """Tell whether a model can be used on rows without what it predicts."""
    try:
        return bool(model.inputs)
    except BadInput:
        return False


def rows(schema: Schema, count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return raw rows: in bounds, beyond them, unlisted, missing."""
    generator = np.random.default_rng(seed)
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for feature in schema.features:
        for row in found:
            if feature.column in row:
                continue
            if feature.column in TEXTS:
                row[feature.column] = str(generator.choice(TEXTS[feature.column]))
            else:
                low, high = getattr(feature, "low", 0.0), getattr(feature, "high", 1.0)
                value = low + (high - low) * generator.uniform(-0.2, 1.2)
                row[feature.column] = None if generator.random() < 0.1 else float(value)
    return found
