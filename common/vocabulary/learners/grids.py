"""Public grids of settings, from which a private choice draws its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of a grid's values, the last key's fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
