"""Public bounds and a public sample: bounds that the sample says, and a word where it does not fit declared ones.

Everything here is computed from the public sample. Of the private people it cannot be told for nothing whether they are
within the bounds; where the public ones are not, they are hardly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars

from common.core.arrays import AnyArray
from common.core.errors import BadFit
from common.data.tables import Number, TableSource
from common.data.tables.frames import is_file, is_frame
from tandem.estimators.shared.frames import check_once, doubles, numbers

RESPONSE = "__response__"
"""Column in which the number to predict travels to the parties."""
FEW = 0.01
"""Share of values beyond the bounds up to which nothing is said, as tails may be cut off by intention; and share of the
responses' variance that their clipping may cost.
"""


class PublicClippingWarning(UserWarning):
    """Values of the public sample are beyond the declared bounds, to which everybody's values are clipped."""


def public_pairs(X: Any, columns: Sequence[str]) -> list[tuple[float, float]]:
    """Return a pair (low, high) for each column: the least and the greatest value of the public sample.

    Parameters
    ----------
    X
        The public sample's features: an array of shape (m, d), or a frame with these columns.
    columns
        Their d names.

    Raises
    ------
    BadFit
        If it has other columns, or holds what is no number.
    """
    if is_file(X):
        raise BadFit("records in a file need schema=, which says what its columns are; found none")
    if is_frame(X):
        check_once(X, columns)
        absent = [name for name in columns if name not in X.columns]
        if absent:
            raise BadFit(f"the public sample has no column {absent[0]!r}, which X has")
        return [widened(numbers(X[name], name, "the public sample")) for name in columns]
    try:
        matrix = np.asarray(doubles(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadFit):
            raise
        raise BadFit("the public sample must hold numbers only: leave the column out, or give schema=") from None
    if matrix.ndim != 2 or matrix.shape[1] != len(columns):
        found = f"{matrix.shape[1]} features" if matrix.ndim == 2 else f"the shape {matrix.shape}"
        raise BadFit(f"the public sample has {found}, and X has {len(columns)} features: give the same")
    return [widened(column) for column in matrix.T]


def widened(values: AnyArray) -> tuple[float, float]:
    """Return the least and the greatest finite value, moved apart by their size, 1 at least, where they are equal."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    if low < high:
        return low, high
    half = 0.5 * max(1.0, abs(low))
    return low - half, high + half


def clipped_shares(public: polars.DataFrame, source: TableSource) -> dict[str, float]:
    """Return the share of a public sample's values that are beyond their bounds, by column, where there are any.

    The response is called ``response``.
    """
    found = {}
    for feature in source.features:
        if not isinstance(feature, Number):
            continue
        values = public[feature.column].cast(polars.Float64, strict=False).to_numpy()
        share = float(np.mean((values < feature.low) | (values > feature.high)))
        if share > 0.0:
            found["response" if feature.column == RESPONSE else feature.column] = share
    return found


def response_cost(responses: AnyArray, low: float, high: float) -> float:
    """Return the mean square of what clipping to [low, high] takes away, in shares of the responses' variance."""
    square = float(np.mean((responses - np.clip(responses, low, high)) ** 2))
    if square == 0.0:
        return 0.0
    variance = float(responses.var())
    return square / variance if variance > 0.0 else np.inf


def warning_text(shares: Mapping[str, float], cost: float) -> str | None:
    """Return what to say, or None: of responses and of features of which more than :data:`FEW` is beyond the bounds.

    Parameters
    ----------
    shares
        As of :func:`clipped_shares`.
    cost
        As of :func:`response_cost`: responses are spoken of where it is above :data:`FEW`, too.
    """
    said = []
    if max(shares.get("response", 0.0), cost) > FEW:
        said.append(
            f"{shares['response']:.1%} of the public sample's responses are beyond response_bounds: responses are "
            "clipped to them in learning and in the agents' answers, so estimate_ is the error for clipped responses, "
            "which may be 0 where predictions are far off"
        )
    features = {name: share for name, share in shares.items() if name != "response" and share > FEW}
    if features:
        worst = max(features, key=lambda name: features[name])
        said.append(
            f"more than {FEW:.0%} of the public sample is beyond its bounds in {len(features)} features, most in "
            f"{worst!r} ({features[worst]:.1%}): what is beyond is clipped"
        )
    if not said:
        return None
    return "; ".join(said) + ". Give wider bounds, or 'public' to take them from the public sample"
