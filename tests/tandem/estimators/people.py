"""People for the estimators' tests: a biased private sample and a population, from a seed."""

from pathlib import Path
from typing import Any

import numpy as np
import polars

SCHEMA = {
    "features": [
        {"kind": "number", "column": "visits", "low": 0, "high": 30},
        {"kind": "number", "column": "months", "low": 0, "high": 60},
        {"kind": "category", "column": "plan", "values": ["basic", "pro"]},
    ],
    "label": {"column": "renews", "positive": ["yes"], "negative": ["no"]},
}
QUICK = {"name": "sgd", "steps": 3000}
"""A learner for tests that look at something else than the model."""


def made(kind: Any, **given: Any) -> Any:
    """Return an estimator, of parameters, options and settings of its learner, each by its name."""
    parameters = {name: given.pop(name) for name in [*given] if name in kind._get_param_names()}
    options = {name: given.pop(name) for name in [*given] if name in kind._known_options}
    return kind(**parameters, **({"options": options} if options else {}), **({"settings": given} if given else {}))


def square(count: int, seed: int, *, rare: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return points in the unit square's double, and whether they lie outside a triangle.

    Points on the right half are taken with chance ``rare`` only.
    """
    generator = np.random.default_rng(seed)
    points = generator.uniform(-1, 1, (20 * count, 2))
    points = points[generator.uniform(size=len(points)) < np.where(points[:, 0] > 0, rare, 1.0)][:count]
    return points, np.where(points[:, 0] + points[:, 1] > 0.2, 1, 0)


def customers(count: int, seed: int) -> polars.DataFrame:
    """Return a table with numbers, categories, a missing field here and there, and a label."""
    generator = np.random.default_rng(seed)
    visits, months = generator.uniform(0, 40, count).round(2), generator.uniform(-5, 70, count).round(1)
    plan = generator.choice(["basic", "pro", "family", ""], count)
    score = visits / 15 + months / 60 + 0.5 * (plan == "pro")
    return polars.DataFrame(
        {
            "visits": [None if missing else value for missing, value in zip(plan == "", visits, strict=True)],
            "months": months,
            "plan": [None if value == "" else str(value) for value in plan],
            "renews": np.where(score > 1.6, "yes", "no"),
        }
    )


def as_csv(frame: polars.DataFrame, path: Path) -> Path:
    """Write a frame as CSV."""
    frame.write_csv(path)
    return path
