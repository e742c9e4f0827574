"""The ranges of epsilon and delta for which the theorems' formulas are evaluated."""

from __future__ import annotations

from common.core.errors import BadInput
from common.privacy.rounding import MAX_EPSILON


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon outside (0, ``MAX_EPSILON``].

    Raises
    ------
    BadInput
        If it is outside, or no number.
    """
    if not 0.0 < epsilon <= MAX_EPSILON:
        raise BadInput(f"epsilon must be positive and at most {MAX_EPSILON:g}, found {epsilon}")


def check_delta(delta: float) -> None:
    """Refuse a delta outside (0, 1).

    Raises
    ------
    BadInput
        If it is outside, or no number.
    """
    if not 0.0 < delta < 1.0:
        raise BadInput(f"delta must be in (0, 1), found {delta}")
