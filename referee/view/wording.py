"""What is shown of a run: plain values, and words for an engineer who is new to differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from common.local.hypotheses.hypothesis import HYPOTHESES
from common.privacy.guarantee import PrivacyGuarantee, formula, in_words
from common.scenario.scenario import ResolvedScenario
from common.statistics.intervals import certainty
from referee.protocols.base import VAGUE, level_of

LARGEST = 1e15  # of a number that is shown: charts and counts are made for no larger ones
Tone = Literal["good", "open", "bad"]
"""``good``: what was asked for is shown. ``open``: there is an answer, but less is shown. ``bad``: no answer."""


class _Numbers:
    """Values that refuse what is no number, or too large to be shown."""

    NUMBERS: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raise ``ValueError`` naming what is none."""
        for value in (getattr(self, name) for name in self.NUMBERS):
            if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
                raise ValueError(f"a number of at most {LARGEST:g} is needed, found {str(value)[:60]!r}")


@dataclass(frozen=True)
class Interval(_Numbers):
    """An estimate with its confidence interval, in units of the loss."""

    NUMBERS = ("value", "low", "high")

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What a run has shown, in one sentence, and how it came to its end."""

    title: str
    detail: str
    tone: Tone


@dataclass(frozen=True)
class Promise:
    """A privacy guarantee: whom it protects, as a formula and in plain words, and what neighbours differ in."""

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
class ChartEntry(_Numbers):
    """A line of a chart with one line for each thing that is compared: an interval, or a value that is known.

    ``truth`` is known in an experiment only, and a ``baseline`` is another way's true value.
    """

    NUMBERS = ("value",)

    name: str
    value: float
    kind: Literal["estimate", "truth", "baseline"]
    estimate: Interval | None = None
    note: str = ""


@dataclass(frozen=True)
class Gauge(_Numbers):
    """How much of something limited has been used."""

    NUMBERS = ("used", "limit")

    name: str
    used: int
    limit: int
    note: str = ""


@dataclass(frozen=True)
class RunView:
    """All that is shown of a run that has ended.

    Attributes:
        measure: What is estimated, as the axis of a chart names it.
        level: The run halts once the loss is shown to be below it; None where it has no such level.
        notice: What a reader must know before believing any promise; empty if there is nothing.
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


LOSSES = {"zero-one": "share of the population that the answer labels wrongly"}
"""How the axis of a loss is called; another loss goes by its name."""
_NO_ANSWER = {
    "refused": "No answer: the run was refused",
    "failed": "No answer: the run failed",
    "cancelled": "No answer: the run was cancelled",
}


def about_a_loss(result: Mapping[str, Any]) -> bool:
    """Tell whether the agents estimated the loss of a hypothesis, and nothing else about a problem."""
    judged = bool(result.get("truth")) and "correct" in result["truth"]
    return not judged and (result["answer"] or {}).get("kind") in HYPOTHESES.names()


def share(value: float, *, up: bool | None = None) -> str:
    """Return a share in per cent with one decimal; ``up`` rounds up, or down where it is False, else to the nearest."""
    scaled = value * 1000
    # What floating point adds to a decimal such as 0.16 is no reason to round it outward.
    near = round(scaled)
    if up is not None and abs(scaled - near) > 1e-9 * max(1.0, abs(scaled)):
        near = math.ceil(scaled) if up else math.floor(scaled)
    return f"{near / 10:g}%"


def silent_in_words(result: Mapping[str, Any]) -> str:
    """Say what those who were asked and did not answer could change; empty where everybody answered.

    A result that another party wrote may have no such numbers: then it is stated that they are missing.
    """
    found, agents = result.get("silent"), result.get("agents") or {"asked": 0, "answered": 0}
    if found is None:
        count = agents["asked"] - agents["answered"]
        if count <= 0 or result["answer"] is None:
            return ""
        return (
            f"{count:,} of {agents['asked']:,} agents asked did not answer: `referee audit` says what they could change"
        )
    words = f"up to {found['missing']:.1%} of the agents asked about it did not answer"
    could = found["estimate"]
    if could is None:
        return f"{words}: the answer is about those who did, and may be another one for all"
    what = "loss" if about_a_loss(result) else "estimate"
    where, left_out = _ends(could), found["left_out"]
    seen = "nothing is known" if left_out is None else f"in {_ends(left_out)}"
    seen = f"; were answers left out because of what they say, {seen}"
    if not found["matters"]:
        return f"{words}: however they differ from those who did, the {what} is in {where}{seen}"
    gap = "" if found["gap"] is None else f", and exceed the best candidate's by up to {found['gap']:.4f}"
    return f"{words}: were they to differ from those who did, the {what} could be anywhere in {where}{gap}{seen}"


def _ends(found: Mapping[str, float]) -> str:
    return f"{ends_in_words(found['low'], found['high'])} with {certainty(found['confidence'])} confidence"


def verdict(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Verdict:
    """Say what a run has shown. Only what its intervals carry is stated as a fact, and about whom they are.

    Where people who were asked did not answer, it is about all who were asked, and those who did not answer count
    against it (:class:`referee.protocols.base.Silent`, ``left_out``).
    """
    silent = silent_in_words(result)
    detail = str(result["reason"]) + (f"; {silent}" if silent else "")
    if not silent:
        return _verdict(scenario, result, detail)
    missing = result.get("silent") or {"left_out": None, "matters": True}
    about_all = result["estimate"] and (missing["left_out"] or {**result["estimate"], "low": 0.0, "high": 1.0})
    found = _verdict(scenario, {**result, "estimate": about_all}, detail, " among all who were asked")
    if not missing["matters"] or found.tone == "bad":
        return found
    states_bound = not result.get("tasks") and about_all is not None and about_a_loss(result)
    title = found.title if states_bound else f"{found.title}; it depends on those who did not answer"
    return replace(found, tone="open", title=title)


def _verdict(scenario: ResolvedScenario, result: Mapping[str, Any], detail: str, people: str = "") -> Verdict:
    if result["answer"] is None:
        return Verdict(_NO_ANSWER.get(result["status"], f"No answer: {result['status']}"), detail, "bad")
    if result.get("tasks"):
        count, done = len(result["tasks"]), sum(task["status"] == "done" for task in result["tasks"])
        return Verdict(f"{done} of {count} tasks have what was asked for", detail, "good" if done == count else "open")
    found = result["estimate"]
    if found is None or not about_a_loss(result):
        return Verdict("The run has an answer", detail, "good" if result["status"] == "done" else "open")
    level, per_cent = level_of(scenario), scenario.agents.loss in LOSSES
    what = "Error" if per_cent else f"{scenario.agents.loss} loss".capitalize()
    sure = f"with {certainty(found['confidence'])} confidence{people}"
    if level is not None and result["status"] == "done" and (not people or found["high"] < level):
        return Verdict(f"{what} below {_number(level, per_cent, True)} {sure}", detail, "good")
    low, high = _number(found["low"], per_cent, False), _number(found["high"], per_cent, True)
    if found["high"] - found["low"] > VAGUE:
        return Verdict(f"Inconclusive: {what.lower()} between {low} and {high} {sure}", detail, "open")
    if level is not None:
        bound = _number(level, per_cent, None)
        return Verdict(f"Not shown to be below {bound}: {what.lower()} between {low} and {high} {sure}", detail, "open")
    middle = _number(found["value"], per_cent, None)
    return Verdict(f"{what} {middle}: between {low} and {high} {sure}", detail, "good")


def _number(value: float, per_cent: bool, up: bool | None) -> str:
    return share(value, up=up) if per_cent else f"{value:.4g}"


def against(found: Interval, level: float | None) -> str:
    """Say what an interval tells about the level at which the run halts."""
    if level is None:
        return ""
    if found.high < level:
        return f"below {level:g}"
    return f"above {level:g}" if found.low > level else f"{level:g} is inside the interval"


def promise(who: str, wire: Mapping[str, Any]) -> Promise:
    """Say a guarantee in plain words and as a formula (:mod:`common.privacy.guarantee`)."""
    given = PrivacyGuarantee.parse(dict(wire))
    return Promise(who, formula(given), in_words(given), str(given))


def interval_in_words(found: Mapping[str, float], places: int = 4) -> str:
    """Return an estimate (value, low, high) in words, its numbers with so many decimal places."""
    low, high = (f"{found[end]:.{places}f}" for end in ("low", "high"))
    if found["high"] - found["low"] > VAGUE:
        return f"somewhere from {low} to {high}: too few agents answered about it to tell"
    return f"{found['value']:.{places}f}, in {low} to {high}"


def ends_in_words(low: float, high: float) -> str:
    """Return an interval with four decimal places, its ends rounded outward."""
    return f"[{math.floor(low * 1e4 + 1e-9) / 1e4:.4f}, {math.ceil(high * 1e4 - 1e-9) / 1e4:.4f}]"


def judged_in_words(judged: Mapping[str, Any]) -> str:
    """Return what the agents say of a candidate (its estimate, and how many were asked), in words."""
    return f"{interval_in_words(judged['estimate'])}, {judged['asked']:,} agents"
