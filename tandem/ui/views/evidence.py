"""How far the rounds' sequential tests are, in e-values, as the page shows it.

All of it is made of the referee's own answers: those that its questions were closed with, which the transcript holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.scenario.resolved import ResolvedScenario

Numbers = Mapping[str, float]
_PLAIN = 20.0
"""Log-evidence beyond which an e-value is shown as a power of ten."""


@dataclass(frozen=True)
class Side:
    """Evidence for one of the two verdicts.

    Attributes
    ----------
    words
        The verdict: "below 0.32".
    value
        The e-value.
    share
        Its logarithm as a share of the one that is needed, in [0, 1].
    """

    words: str
    value: str
    share: float

    @property
    def percent(self) -> str:
        """The share in percent, rounded down: 100% only where the level is reached."""
        return f"{math.floor(100.0 * self.share)}%"


@dataclass(frozen=True)
class Tested:
    """How far the test of one round is.

    Attributes
    ----------
    sides
        "Below" first, then "above".
    needed
        The e-value that decides.
    answers, most, asked
        Answers so far, answers by which it has decided, and agents asked so far.
    verdict
        What it has shown; "not yet" or "undecided" (the agents ran out) where nothing.
    """

    name: str
    sides: tuple[Side, Side]
    needed: str
    low: str
    high: str
    answers: int
    most: int
    asked: int
    verdict: str


def shown_tests(scenario: ResolvedScenario, ended: Sequence[Numbers], now: Numbers | None) -> list[Tested]:
    """Return the tests of a run in order; none where its test does not look early.

    Parameters
    ----------
    ended
        The numbers of its notes; those of a round say how its test ended.
    now
        The numbers of the test under way.
    """
    low, high = (level * scenario.alpha for level in (scenario.accuracy.reweigh_above, scenario.accuracy.halt_below))
    found = [
        _one(f"round {numbers['round']:.0f}", low, high, numbers, "undecided")
        for numbers in ended
        if "round" in numbers and _says(numbers)
    ]
    if now is not None and _says(now):
        found.append(_one("round under way", low, high, now, "not yet"))
    return found


_NEEDED = "tested_needed"


def _says(numbers: Numbers) -> bool:
    return _NEEDED in numbers and all(math.isfinite(value) for value in numbers.values())


def _one(name: str, low: float, high: float, numbers: Numbers, none: str) -> Tested:
    needed, below, above = (numbers.get(key, 0.0) for key in (_NEEDED, "tested_below", "tested_above"))
    sides = (_side(f"below {high:g}", below, needed), _side(f"above {low:g}", above, needed))
    return Tested(
        name=name,
        sides=sides,
        needed=e_value(needed),
        low=f"{low:g}",
        high=f"{high:g}",
        answers=int(numbers.get("tested_answers", 0)),
        most=int(numbers.get("tested_worst_case", 0)),
        asked=int(numbers.get("asked", 0)),
        verdict=next((side.words for side in sides if side.share >= 1.0), none),
    )


def _side(words: str, log_value: float, needed: float) -> Side:
    share = log_value / needed if needed > 0.0 else 0.0
    return Side(words, e_value(log_value), min(1.0, max(0.0, share)))


def e_value(log_value: float) -> str:
    """Return exp(``log_value``) in three digits, where it is very large or small as a power of ten."""
    if abs(log_value) <= _PLAIN:
        return f"{math.exp(log_value):,.0f}" if log_value > math.log(1e3) else f"{math.exp(log_value):.3g}"
    return f"10^{log_value / math.log(10.0):.1f}"
