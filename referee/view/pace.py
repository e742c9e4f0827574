"""How a long run goes on: the time left, the trend of its loss, and which rounds are worth a line in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Numbers = Mapping[str, float]
Say = Callable[[str, dict[str, float], str], None]
"""Takes a text, its numbers, and what is to be added about time and trend."""


def worth_a_line(number: int) -> bool:
    """Tell whether a round has one significant digit: 1 to 10, 20, 30, ..., 100, 200, ..."""
    return number < 10 or number % 10 ** (len(str(number)) - 1) == 0


class Outlook:
    """Foretells from the rounds so far how long the others may take, and says where the loss is going.

    Args:
        now: The clock, in seconds; replaced in tests.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began: tuple[float, float] | None = None
        self._before: Numbers | None = None

    def after(self, numbers: Numbers, *, last: bool = False) -> str:
        """Return what is to be said after a round (of ``round``, ``rounds``, and ``value``, ``low``, ``high``).

        Args:
            last: Whether no further round follows, also where more were allowed.
        """
        number, rounds = numbers["round"], numbers.get("rounds", 0.0)
        if self._began is None or number <= self._began[0]:  # the first, or the first of a further task
            self._began, self._before = (number, self._now()), None
        parts = []
        if self._before is not None and "value" in numbers and "value" in self._before:
            parts.append(self._trend(self._before, numbers))
        first, began = self._began
        if number > first and rounds > number and not last:
            seconds = (self._now() - began) / (number - first) * (rounds - number)
            parts.append(f"at most {in_time(seconds)} left")
        self._before = dict(numbers)
        return ", ".join(parts)

    @staticmethod
    def _trend(before: Numbers, now: Numbers) -> str:
        change = now["value"] - before["value"]
        since = f"since round {before['round']:.0f}"
        if now["low"] <= before["high"] and before["low"] <= now["high"]:
            return f"level within the intervals {since}"
        return f"{'up' if change > 0 else 'down'} by {abs(change):.4f} {since}"


def in_time(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1, round(seconds))} s"


class Pace:
    """Passes on progress for a log: what is no round at once, of rounds those that are worth a line, and the last.

    Args:
        say: Takes what is passed on.
        now: The clock, in seconds.
    """

    def __init__(self, say: Say, now: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._outlook = Outlook(now)
        self._waiting: tuple[str, dict[str, float]] | None = None
        self._last = 0.0

    def __call__(self, text: str, numbers: dict[str, float]) -> None:
        """Take progress."""
        number = numbers.get("round")
        if number is None:
            self.flush()
            self._say(text, numbers, "")
            return
        if number <= self._last:
            self.flush()
        self._last = number
        if worth_a_line(int(number)) or number == numbers.get("rounds"):
            self._waiting = None
            self._say(text, numbers, self._outlook.after(numbers))
        else:
            self._waiting = text, numbers

    def flush(self) -> None:
        """Pass on the last round, if it has not been."""
        if self._waiting is not None:
            (text, numbers), self._waiting = self._waiting, None
            self._say(text, numbers, self._outlook.after(numbers, last=True))
