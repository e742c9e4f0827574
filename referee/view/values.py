"""What is shown of a run, as plain values: nothing here knows a page, a file or a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

LARGEST = 1e15
"""Of a number that is shown: charts and counts are made for no larger ones."""
Tone = Literal["good", "open", "bad"]
"""``good``: what was asked for is shown. ``open``: there is an answer, but less is shown. ``bad``: no answer."""


def _check_numbers(*values: Any) -> None:
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
            raise ValueError(f"a number of at most {LARGEST:g} is needed, found {str(value)[:60]!r}")


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval; all of it in units of the loss.

    Attributes:
        confidence: Probability that the interval holds the true value; None where the run's notes do not say.
    """

    value: float
    low: float
    high: float
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no number."""
        _check_numbers(self.value, self.low, self.high, *([] if self.confidence is None else [self.confidence]))


@dataclass(frozen=True)
class Verdict:
    """What a run has shown, in one sentence, and how it came to its end."""

    title: str
    detail: str
    tone: Tone


@dataclass(frozen=True)
class Promise:
    """A privacy guarantee.

    Attributes:
        who: Whom it protects.
        formula: "(0.5, 0.0001)-differential privacy".
        plain: What that means, for somebody who does not know the formula.
        scope: What neighbours differ in, and what is covered.
    """

    who: str
    formula: str
    plain: str
    scope: str


@dataclass(frozen=True)
class Round:
    """A round's estimate of the loss on the population.

    Attributes:
        against: What the interval says about the level at which the run halts; empty where there is no level.
        chosen: Whether the answer of the run is this round's.
    """

    number: int
    estimate: Interval
    asked: int
    words: str
    against: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class ChartEntry:
    """A line of a chart with one line for each thing that is compared: an interval, or a value that is known.

    Attributes:
        kind: ``estimate``: of the agents. ``truth``: known in an experiment only. ``baseline``: another way's true
            value.
    """

    name: str
    value: float
    kind: Literal["estimate", "truth", "baseline"]
    estimate: Interval | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no number."""
        _check_numbers(self.value)


@dataclass(frozen=True)
class Gauge:
    """How much of something limited has been used."""

    name: str
    used: int
    limit: int
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no number."""
        _check_numbers(self.used, self.limit)


@dataclass(frozen=True)
class RunView:
    """All that is shown of a run that has ended.

    Attributes:
        measure: What is estimated, as the axis of a chart names it.
        level: The run halts once the loss is shown to be below it; None where it has no such level.
        notice: What a reader must know before believing any promise; empty if there is nothing.
        facts: Further lines: name and value.
    """

    name: str
    title: str
    description: str
    status: str
    protocol: str
    folder: Path
    verdict: Verdict
    measure: str
    promises: tuple[Promise, ...]
    gauges: tuple[Gauge, ...]
    facts: tuple[tuple[str, str], ...]
    notice: str = ""
    level: float | None = None
    estimate: Interval | None = None
    rounds: tuple[Round, ...] = ()
    rounds_note: str = ""
    candidates: tuple[ChartEntry, ...] = ()
    known: tuple[ChartEntry, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    reading: str = ""
    warnings: tuple[str, ...] = ()
    model: tuple[str, ...] = field(default=(), repr=False)
