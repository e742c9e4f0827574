"""Guarantees in plain words, for an engineer or a person who does not know the formula."""

from __future__ import annotations

import math

from common.privacy.guarantee import Guarantee

_ENDS_OF_EXP = 700.0


def formula(given: Guarantee) -> str:
    """Return a guarantee as a formula, "(0.5, 0.0001)-differential privacy"."""
    if given.covers == "nothing":
        return "nothing released"
    if given.epsilon is None or given.delta is None:
        return "no guarantee"
    return f"({given.epsilon:g}, {given.delta:g})-differential privacy"


def in_words(given: Guarantee) -> str:
    """Say a guarantee in plain words.

    (epsilon, delta) differential privacy is: P(E) <= e^epsilon P'(E) + delta for all neighbours and every set E of what
    may be seen. The factor is rounded up.
    """
    if given.covers == "nothing":
        return "Nothing was released about anybody."
    if given.epsilon is None or given.delta is None:
        return "Nothing is promised."
    factor = math.ceil(min(math.exp(min(given.epsilon, _ENDS_OF_EXP)), 1e300) * 100) / 100
    times = f"{factor:,.2f}" if factor < 1e6 else f"{factor:.1e}"
    changed = "label were" if given.protects == "labels" else "record were"
    plain = (
        f"If one person's {changed} another, no outcome would be more than {times} times as likely "
        f"(e to the epsilon = {given.epsilon:g})"
    )
    return plain + (
        f", apart from a probability of {given.delta:g} (delta)." if given.delta else "; there is no delta."
    )


def best_guess(epsilon: float, delta: float) -> float:
    """Bound how often somebody guesses right who sees an outcome and held two records for equally likely before.

    Of two laws P and P' with P(E) <= e^epsilon P'(E) + delta for every E, and the same the other way round, a guess is
    right with probability 1/2 + TV/2 at most, and TV <= (e^epsilon - 1 + 2 delta)/(e^epsilon + 1) (Kairouz, Oh and
    Viswanath 2015, Theorem 3.4 with its region's corner). Together: (e^epsilon + delta)/(e^epsilon + 1), rounded up to
    four decimals and never above 1.
    """
    # Divided by e^epsilon, so that a large epsilon overflows nowhere.
    small = math.exp(-min(epsilon, _ENDS_OF_EXP))
    bound = (1.0 + delta * small) / (1.0 + small)
    return min(1.0, math.ceil(bound * 1e4 * (1.0 + 1e-14)) / 1e4)
