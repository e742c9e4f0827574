"""What is shown about a run: plain values, and wording for an engineer who is new to differential privacy."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from common.core.errors import BadData, BadInput
from common.core.plain import plain
from common.local.hypotheses.hypothesis import HYPOTHESES
from common.models.explain import linear_terms
from common.models.explain import lines as model_lines
from common.models.model import Model, label_classes, released
from common.net.messages import Spent
from common.operations.target_bound import TargetBound
from common.privacy.guarantee import PrivacyGuarantee, formula, in_words
from common.scenario.fitting import advice_of
from common.scenario.scenario import ResolvedScenario
from common.statistics.curves import ScoreQuality
from common.statistics.intervals import certainty
from referee.protocols.base import halts, level_of, shown_by
from referee.runs import percents
from referee.runs.percents import AS_IT_IS, PER_CENT, Unit
from referee.runs.verdict import (
    CONSTANT,
    ENDED,
    Verdict,
    about_a_loss,
    is_constant,
    measure_of,
    silent_in_words,
    unit_of,
    verdict,
)
from referee.view.assumptions import contradictions


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, in units of the loss."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Promise:
    """A privacy guarantee: whom it protects, the formula, the same in plain words, and the neighbouring relation."""

    who: str
    formula: str
    plain: str
    scope: str


@dataclass(frozen=True)
class Round:
    """A round's estimate of the loss on the population; ``chosen``: the answer of the run comes from this round.

    ``against`` compares the interval with the level at which the run halts; empty if there is no level.
    """

    number: int
    estimate: Interval
    asked: int
    words: str
    against: str = ""
    chosen: bool = False


@dataclass(frozen=True)
class ChartEntry:
    """A row of a comparison chart: an interval, or a known value.

    A ``truth`` is known in an experiment only; a ``baseline`` is the true value of another method.
    """

    name: str
    value: float
    kind: Literal["estimate", "truth", "baseline"]
    estimate: Interval | None = None
    note: str = ""


@dataclass(frozen=True)
class Gauge:
    """How much of something limited has been used."""

    name: str
    used: int
    limit: int
    note: str = ""


@dataclass(frozen=True)
class RunView:
    """All that is shown about a run that has ended.

    Attributes:
        measure: The quantity that is estimated, as the axis of a chart names it.
        level: The run halts once the loss is shown to be below it; None if the run has no such level.
        sides: Errors by class, as reported by the surveyed agents.
        known, known_mistakes: True losses, known in an experiment only: of the kind that agents reported, in ``unit``,
            if that is not the share of mistakes; and shares of mistakes.
        weights: For an additive model, what each feature contributes at most, the largest first.
        than: What the verdict compares the model with; empty if there is no comparison.
        unit: The unit in which losses are printed.
        notice: What a reader must know before trusting any guarantee; empty if there is nothing.
    """

    name: str
    title: str
    description: str
    status: str
    ended: str
    protocol: str
    folder: Path
    verdict: Verdict
    measure: str
    promises: tuple[Promise, ...]
    gauges: tuple[Gauge, ...]
    facts: tuple[tuple[str, str], ...]
    notice: str = ""
    than: str = ""
    level: float | None = None
    unit: Unit = PER_CENT
    estimate: Interval | None = None
    rounds: tuple[Round, ...] = ()
    rounds_note: str = ""
    candidates: tuple[ChartEntry, ...] = ()
    quality: tuple[ChartEntry, ...] = ()
    sides: tuple[ChartEntry, ...] = ()
    known: tuple[ChartEntry, ...] = ()
    known_mistakes: tuple[ChartEntry, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    reading: str = ""
    warnings: tuple[str, ...] = ()
    weights: tuple[tuple[str, float], ...] = ()
    model: tuple[str, ...] = field(default=(), repr=False)


BOUND = "by both samples alone (Theorem B.1)"
IF_NONE_LEFT_OUT = "; if no answer was left out because of what it says"
"""Added to a statement about the agents that answered if some that were asked did not."""


def against(interval: Interval, level: float | None, *, unit: Unit = PER_CENT) -> str:
    """Return in words how an interval compares with the level at which the run halts."""
    if level is None:
        return ""
    bound = percents.exact(level, unit)
    if interval.high < level:
        return f"below {bound}"
    return f"above {bound}" if interval.low > level else f"{bound} is inside the interval"


def promise(who: str, wire: Mapping[str, Any]) -> Promise:
    """Return a guarantee in plain words and as a formula (:mod:`common.privacy.guarantee`)."""
    guarantee = PrivacyGuarantee.parse(dict(wire))
    return Promise(who, formula(guarantee), in_words(guarantee), str(guarantee))


def judged_in_words(candidate: Mapping[str, Any], *, unit: Unit = PER_CENT) -> str:
    """Return in words the agents' judgement of a candidate: its estimate, and how many were asked."""
    return f"{percents.estimate_or_vague(candidate['estimate'], unit=unit)}, {candidate['asked']:,} agents"


PROMISED = {
    "curator": "each person of the curator has",
    "agent": "each agent has",
    "together": "a row of the file that both read has",
}
"""The people that a run's guarantees protect, by the keys in its result."""
OVER_ALL_RUNS = {"curator": "the curator's people", "agent": "the population's people"}
"""The people whose spending over all runs a result states."""
SIMULATED = "simulated: the run's seed is enough to undo the noise, so nothing of this is promised to real people"
"""The notice for people whose randomness may come from a seed."""
TRUTHS = {"loss_on_target": "true loss on T", "correct": "in truth"}
"""The names of truths that were left out; a baseline has its own name."""
MAX_WEIGHTS = 40  # weights that are drawn
MAX_MODEL_LINES = 80  # lines of a model that are shown


def run_view(scenario: ResolvedScenario, result: Mapping[str, Any], rounds: Sequence[Mapping[str, float]]) -> RunView:
    """Return the view of a run that has ended; ``BadData`` if the result does not fit the scenario.

    ``rounds`` are those of :func:`referee.runs.results.rounds_of`.
    """
    try:
        return _view(scenario, result, rounds)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        why = f"the result of {scenario.name} cannot be read ({error!r})"
        raise BadData(f"{why}: it was changed, or written by another version") from None


def _view(scenario: ResolvedScenario, result: Mapping[str, Any], rounds: Sequence[Mapping[str, float]]) -> RunView:
    level, truth, conclusion = level_of(scenario), result.get("truth") or {}, verdict(scenario, result)
    estimate = _interval(result["estimate"]) if result["estimate"] and about_a_loss(result) else None
    advised = advice_of(scenario) if scenario.problem is None else None
    model = _released(scenario, result)
    return RunView(
        name=plain(scenario.name),
        title=plain(scenario.title),
        description=plain(" ".join(scenario.description.split())),
        status=plain(str(result["status"])),
        ended=plain(ENDED.get(str(result["status"]), str(result["status"]))),
        protocol=plain(scenario.protocol),
        folder=Path(str(result.get("run", ""))),
        verdict=conclusion,
        measure=measure_of(scenario),
        promises=tuple(promise(n, result["privacy"][who]) for who, n in PROMISED.items() if who in result["privacy"]),
        gauges=tuple(_gauges(scenario, result)),
        notice=f"People are {SIMULATED}." if scenario.people == "simulated" else "",
        facts=tuple((name, plain(value)) for name, value in _facts(scenario, result)),
        than=_rivals(result) if conclusion.answer else "",
        level=level,
        unit=unit_of(scenario),
        estimate=estimate,
        rounds=tuple(_round(numbers, level, result, unit_of(scenario)) for numbers in rounds),
        rounds_note=_rounds_note(scenario) if rounds else "",
        candidates=tuple(_candidate(candidate, unit_of(scenario)) for candidate in result.get("candidates", [])),
        quality=tuple(_curve(result)),
        sides=tuple(_sides(scenario, result)),
        known=tuple(_known(truth)),
        known_mistakes=tuple(_known_mistakes(truth)),
        left_out=tuple((TRUTHS.get(name, name), plain(why)) for name, why in truth.get("left_out", {}).items()),
        reading=plain(truth.get("reading", "")),
        warnings=() if advised is None else tuple(plain(warning) for warning in advised.warnings),
        weights=_weights(model),
        model=tuple(_model(model)),
    )


def _rivals(result: Mapping[str, Any]) -> str:
    if result.get("comparison"):
        rival = next(
            candidate for candidate in result["candidates"] if candidate["name"] == result["comparison"]["with"]
        )
        return CONSTANT if is_constant(rival["hypothesis"]) else f"the curator's model alone and {CONSTANT}"
    return "each of its rivals" if result.get("pairs") else CONSTANT


def quality_of(result: Mapping[str, Any]) -> ScoreQuality | None:
    """Return the quality of a result's calibrated score; None if no agents were surveyed."""
    return None if result.get("quality") is None else ScoreQuality.parse(dict(result["quality"]))


def rates_in_words(quality: ScoreQuality) -> Iterator[tuple[str, str]]:
    """Yield what a survey of agents shows about a score besides its curve."""
    auc, confidence = percents.estimate_or_vague(quality.auc.wire()), certainty(quality.recall.confidence)
    yield "AUC of the score in bins", f"{auc}, {certainty(quality.auc.confidence)} by the normal law, which is no bound"
    above = percents.share(quality.threshold)
    for name, e in (("recall", quality.recall), ("false alarms", quality.false_alarms)):
        rate = percents.estimate_or_vague(e.wire())
        yield name, f"{rate}, {confidence}; positive where the probability is above {above}"
    yield (
        "surveyed",
        f"{quality.agents:,} agents gave one bit of their score's bin and their label, which paid for these",
    )


def _curve(result: Mapping[str, Any]) -> Iterator[ChartEntry]:
    quality = quality_of(result)
    for score_bin in quality.bins if quality else ():
        e, low, high = (
            _interval(score_bin.observed.wire()),
            percents.share(score_bin.low),
            percents.share(score_bin.high),
        )
        meets = "as predicted" if e.low <= score_bin.high and e.high >= score_bin.low else "not as predicted"
        note = f"{percents.estimate_or_vague(score_bin.observed.wire())}: {meets}"
        yield ChartEntry(f"predicted {low} to {high}", e.value, "estimate", e, note)


def lost(result: Mapping[str, Any]) -> list[str]:
    """Return how many agents were asked and did not answer, and the known reasons."""
    counts = result["lost"]
    words = [f"{counts['silent']:,} kept silent"] if counts["silent"] else []
    if counts["declined"]:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts["declined"].items())
        words.append(f"{sum(counts['declined'].values()):,} declined: {reasons}")
    return words


def over_all_runs(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what all runs may have cost the people of each side of this one, according to a ledger of people.

    For a remote deployment only the curator's signed statement is known, from before the agents are charged.
    """
    signed, totals = result["privacy"].get("all_runs"), result.get("all_runs")
    if signed and not totals:
        yield OVER_ALL_RUNS["curator"], f"{Spent.parse(signed)}, when this run began, before agents were charged"
    for who, total in (totals or {}).items():
        yield OVER_ALL_RUNS[who], str(Spent.parse(total))


def _candidate(candidate: Mapping[str, Any], unit: Unit) -> ChartEntry:
    interval, words = _interval(candidate["estimate"]), judged_in_words(candidate, unit=unit)
    return ChartEntry(plain(candidate["name"]), interval.value, "estimate", interval, words)


LARGEST = 1e15  # charts and counts are made for no larger numbers


def _number_of(value: Any) -> Any:
    """Return a number that can be shown; ``ValueError`` for anything else that a result may hold."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise ValueError(f"a number of at most {LARGEST:g} is needed, found {str(value)[:60]!r}")
    return value


def _interval(wire: Mapping[str, Any]) -> Interval:
    return Interval(*(_number_of(wire[part]) for part in ("value", "low", "high")))


def _gauges(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[Gauge]:
    agents, most = result["agents"], scenario.agents.answers
    once = min(agents["asked"], agents["enrolled"])  # while a run goes on, ``asked`` counts requested answers
    people = agents.get("people", once)
    asked, enrolled, rounds = map(_number_of, (people, agents["enrolled"], result["iterations"]))
    times = "once" if most == 1 else f"at most {most} times"
    note = f"a run asks each agent {times}; an individual's agent that was not asked keeps its budget"
    yield Gauge("agents asked", asked, enrolled, note)
    if halts(scenario):
        note = "the curator's promise covers all rounds that it may be asked for, used or not"
        yield Gauge("rounds used", rounds, scenario.curator.rounds, note)


def solves_a_problem(result: Mapping[str, Any]) -> bool:
    """Return whether the answer of a run solves a problem and is no model; it is then shown in full."""
    answer = result["answer"] or {}
    return "kind" in answer and answer["kind"] not in HYPOTHESES.names()


def agents_in_words(agents: Mapping[str, int]) -> str:
    """Return how many agents a run asked, and how many answered; an agent asked several times counts once."""
    asked, answered = f"{agents.get('people', agents['asked']):,}", f"{agents['answered']:,} answered"
    if "people" in agents:
        answered = f"{agents['answered']:,} of {agents['asked']:,} answers came"
    return f"{asked} of {agents['enrolled']:,} people were asked, {answered}"


def _facts(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    agents, truth, silent = result["agents"], result.get("truth") or {}, silent_in_words(result)
    among = ", among those who answered" if silent else ""
    ended = ENDED.get(str(result["status"]), str(result["status"]))
    yield "the run", f"{ended}, after {result['iterations']} round{'' if result['iterations'] == 1 else 's'}"
    if result["status"] == "done":
        yield "what is shown", f"{shown_by(scenario, result.get('gap'))}{IF_NONE_LEFT_OUT if silent else ''}"
    yield "protocol", scenario.protocol
    yield "agents", agents_in_words(agents)
    if result.get("bound"):
        yield BOUND, TargetBound.parse(result["bound"]).in_words()
    for words in contradictions(scenario, result):
        yield "assumption contradicted", words
    for words in lost(result):
        yield "lost", words
    for who, words in over_all_runs(result):
        yield f"over all runs, {who}", words
    if solves_a_problem(result):
        yield "answer", json.dumps(result["answer"])
    if "correct" in truth:
        yield "in truth", json.dumps(truth)
    elif result["estimate"] and not about_a_loss(result):
        yield "estimate of the agents", percents.estimate_or_vague(result["estimate"], unit=AS_IT_IS)
    for number, value in enumerate(truth.get("tasks", []), start=1):
        loss = percents.share(value, places=2)
        yield f"task {number}", f"true loss {loss} after {result['tasks'][number - 1]['iterations']} rounds"
    if quality := quality_of(result):
        yield from rates_in_words(quality)
    if words := percents.in_own_units(scenario, result):
        yield "in units of the response", f"{words}{among}"
    if "gap" in result:
        confidence = f"with {certainty(result['estimate']['confidence'])} confidence"
        most = percents.points(result["gap"], up=True, unit=unit_of(scenario))
        yield "gap", f"{most}: {confidence} the answer's loss exceeds that of its rival by no more{among}"
    if truth.get("note"):
        yield "true losses", f"are {truth['note']}"
    yield "seconds", f"{result['seconds'].get('total', 0.0):g}"


def _round(numbers: Mapping[str, float], level: float | None, result: Mapping[str, Any], unit: Unit) -> Round:
    interval = _interval(numbers)
    estimate = result["estimate"] or {}
    chosen = all(estimate.get(end) == numbers[end] for end in ("value", "low", "high"))
    compared = against(interval, level, unit=unit)
    if level is not None and chosen and result["status"] == "done" and "tasks" not in result:
        bound = percents.exact(level, unit)
        compared = f"shown to be below {bound} by the test"
    words = percents.estimate_or_vague(numbers, unit=unit)
    return Round(int(numbers["round"]), interval, int(numbers["asked"]), words, compared, chosen)


def _rounds_note(scenario: ResolvedScenario) -> str:
    confidence = certainty(1.0 - scenario.beta)
    note = f"Intervals are two-sided and hold for all rounds together, with {confidence} confidence."
    if halts(scenario) and scenario.agents.test == "sequential":
        note += " The run halts by a one-sided sequential test, which needs fewer answers."
    return note


def _known(truth: Mapping[str, Any]) -> Iterator[ChartEntry]:
    for name, key, note in (
        ("this run's answer, tested", "tested_loss", "true loss of the kind that agents tested"),
        ("this run's answer, squared", "mean_squared_error", "true squared loss"),
    ):
        if truth.get(key) is not None:
            yield ChartEntry(name, _number_of(truth[key]), "truth", note=note)


def _known_mistakes(truth: Mapping[str, Any]) -> Iterator[ChartEntry]:
    """Yield the true shares of people that the answer, and each baseline, misclassifies, whatever agents reported."""
    if truth.get("loss_on_target") is not None and "correct" not in truth:
        loss = _number_of(truth["loss_on_target"])
        yield ChartEntry("this run's answer", loss, "truth", note="true loss on the population")
        sides = {"-1": truth.get("loss_on_negative"), "+1": truth.get("loss_on_positive")}
        for label, share in sides.items() if None not in sides.values() else ():
            note = "true loss of the answer on them"
            yield ChartEntry(f"people labelled {label}", _number_of(share), "truth", note=note)
    for name, baseline in truth.get("baselines", {}).items():
        value, note = _number_of(baseline["loss_on_target"]), plain(baseline["note"])
        yield ChartEntry(plain(name), value, "baseline", note=note)


def _released(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Model | None:
    """Return the model over the columns of the table; None if the answer is no model, or people are in no table."""
    try:
        return released(scenario, dict(result))
    except BadInput:
        return None


def _model(model: Model | None) -> Iterator[str]:
    words = [] if model is None else model_lines(model)
    yield from (plain(line) for line in words[:MAX_MODEL_LINES])
    if len(words) > MAX_MODEL_LINES:
        yield f"... ({len(words) - MAX_MODEL_LINES:,} lines more)"


def _weights(model: Model | None) -> tuple[tuple[str, float], ...]:
    total = None if model is None else linear_terms(model)
    terms = [
        (plain(term.column if term.value is None else f"{term.column} = {term.value}"), term.weight)
        for term in (() if total is None else total.terms)
    ]
    return tuple(sorted(terms, key=lambda each: -abs(each[1]))[:MAX_WEIGHTS])


def _sides(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[ChartEntry]:
    quality, table = quality_of(result), scenario.target.table
    if quality is None:
        return
    negative, positive = (label_classes(table.label) if table and table.label else None) or ("-1", "+1")
    missed = Interval(1.0 - quality.recall.value, 1.0 - quality.recall.high, 1.0 - quality.recall.low)
    for label, other, e in ((positive, negative, missed), (negative, positive, _interval(quality.false_alarms.wire()))):
        words = percents.estimate_or_vague(vars(e))
        yield ChartEntry(plain(f"{label}, taken for {other}"), e.value, "estimate", e, words)


def view_so_far(
    scenario: ResolvedScenario,
    rounds: Sequence[Mapping[str, float]],
    agents: Mapping[str, Any],
    promises: Mapping[str, PrivacyGuarantee],
    status: str,
) -> RunView:
    """Return the view of an unfinished run, from what is known so far; raises as :func:`run_view` does."""
    document = {
        "status": status,
        "reason": "",
        "iterations": len(rounds),
        "answer": None,
        "estimate": None,
        "agents": dict(agents),
        "lost": {"silent": 0, "declined": {}},
        "privacy": {**{who: promised.wire() for who, promised in promises.items()}, "all_runs": None},
        "seconds": {},
    }
    view = run_view(scenario, document, rounds)
    return replace(view, verdict=_verdict_so_far(scenario, view), facts=())


def _verdict_so_far(scenario: ResolvedScenario, view: RunView) -> Verdict:
    if not view.rounds:
        return Verdict("No round has ended yet", f"the run is {view.status}", "open")
    last = view.rounds[-1]
    most = f" of at most {scenario.curator.rounds:,}" if halts(scenario) else ""
    detail = f"its loss on the population is {last.words}" + (f": {last.against}" if last.against else "")
    return Verdict(f"Round {last.number:,}{most} has ended", detail, "open")
