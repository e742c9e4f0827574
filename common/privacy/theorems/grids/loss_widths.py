"""How wide the cells of a loss grid should be. Nothing here is part of a proof: every width gives a valid bound.

A grid moves losses apart: it adds to the variance of their sum, and that is what it costs. What matters is the
variance where delta is made, under the tilt that suits it (:mod:`common.privacy.theorems.grids.tilting`). There the
rare large losses of a few steps with little noise count for most, so the width must not be held against the many small
losses, of which a grid that reaches as far as the large ones cannot have enough cells.

So widths are halved, from a coarse one that reaches far enough, until that no longer takes anything off the variance
and the transform would begin to take time; or until a finer one would be too long to transform.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.privacy.theorems.grids.loss_grids import LossGrid, connect_dots, reach
from common.privacy.theorems.grids.profiles import Profile
from common.privacy.theorems.grids.tilting import Composed, compose, deviation, length

Parts = Sequence[tuple[Profile, int]]
"""Profiles of single releases, with how often each happens."""

CUT = 1e-4
"""Share of delta for losses beyond the grids."""

SHORT = 1e-3
"""Share of delta that rounding on narrow cells may cost."""

FIRST_CELLS = 256
"""Cells of the coarsest grid that is tried."""

FEW_POINTS = 1 << 17
"""Transforms of so many points take no time: grids are made finer up to there in any case."""

FINENESS = 1e-4
"""The last halving of the width may take so much off the variance of the loss, as a share of it."""

COARSEST = 0.1
"""The same, where the finest grid that can be transformed is coarser; one that adds more is not worth its time."""


def compose_profiles(parts: Parts, delta: float) -> Composed | None:
    """Compose profiles on a grid of a suitable width, tuned to a delta in (0, 1).

    Returns
    -------
    The composition; None where each grid that is fine enough would be too long.
    """
    cut = CUT * delta / sum(count for _, count in parts)
    coarsest = width = max(reach(profile, cut) for profile, _ in parts) / FIRST_CELLS
    grids, spread = _tried(parts, width, cut, delta)
    added, points = 1.0, 0
    while added > FINENESS or points < FEW_POINTS:
        finer, less = _tried(parts, 0.5 * width, cut, delta)
        longer = None if finer is None or less is None else length(finer, 0.5 * width, less)
        if less is None or longer is None:
            break
        added = 1.0 if spread is None else 1.0 - (less / spread) ** 2
        width, grids, spread, points = 0.5 * width, finer, less, longer
    found = None
    while added <= COARSEST and grids is not None and found is None:
        found = compose(grids, width, delta)
        if width >= coarsest:
            break
        width *= 2.0
        grids = None if found is not None else _tried(parts, width, cut, delta)[0]
    return found


def _tried(
    parts: Parts, width: float, cut: float, delta: float
) -> tuple[list[tuple[LossGrid, int]] | None, float | None]:
    """Return the grids of a width, and the deviation of their sum; None where there is none, or rounding is felt."""
    grids = []
    for profile, count in parts:
        grid = connect_dots(profile, width, cut)
        if grid is None:
            return None, None
        grids.append((grid, count))
    if sum(count * grid.shortfall for grid, count in grids) > SHORT * delta:
        return None, None
    return grids, deviation(grids, width, delta)
