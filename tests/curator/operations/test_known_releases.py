"""What each operation releases of a small sample under a fixed key; that it has the right law is shown beside this."""

from __future__ import annotations

from typing import Any

import numpy as np

from common.local.records import Records
from common.operations.operation import parse_operation
from tests.curator.operations.given import release
from tests.tiers import for_each

FEATURES = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(np.uint8)
FEATURES[:, 2] |= FEATURES[:, 1]
SAMPLE = Records(FEATURES, np.where(FEATURES[:, 0] > 0, 1, -1).astype(np.int8))
KNOWN: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"kind": "select", "first": 1, "count": 5, "epsilon": 1.0}, [{"feature": 2}, {"feature": 2}]),
    ({"kind": "select", "first": 0, "count": 2, "epsilon": 0.1}, [{"feature": 0}, {"feature": 0}]),
    ({"kind": "count", "feature": 5, "epsilon": 0.5}, [{"count": 38}, {"count": 35}]),
    (
        {"kind": "parities", "features": 2, "first": 2, "bits": 4, "blocks": 2, "parts": 3, "epsilon": 20.0},
        [{"parities": [[[0], [0]]] * 3}] * 2,
    ),
    (
        {"kind": "head", "first": 1, "bits": 3, "most": 4, "epsilon": 6.0},
        [
            {"items": [6, 7, 1, 3], "counts": [10, 5, 6, 6], "people": 30},
            {"items": [6, 7, 1, 3], "counts": [10, 6, 6, 5], "people": 30},
        ],
    ),
]


@for_each(("operation", "known"), KNOWN, ids=str)
@for_each("cut", [0, 17])
def test_known_releases(operation: dict[str, Any], known: list[dict[str, Any]], cut: int) -> None:
    parsed = parse_operation(operation)
    assert [release(parsed, SAMPLE, seed, cut) for seed in range(2)] == known
