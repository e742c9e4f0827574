"""From a run's scenario and result document, or what its referee says so far, to what is shown of it.

Every number comes from these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.core.errors import BadData, BadInput
from common.core.plain import plain
from common.models.explain import lines as model_lines
from common.models.model import released
from common.net.messages import Spent
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.fitting import advice_of
from common.scenario.scenario import ResolvedScenario
from common.statistics.intervals import certainty
from referee.protocols.base import halts, level_of, shown_by
from referee.view.wording import (
    LOSSES,
    ChartEntry,
    Gauge,
    Interval,
    Round,
    RunView,
    Verdict,
    about_a_loss,
    against,
    interval_in_words,
    judged_in_words,
    promise,
    verdict,
)

PROMISED = {
    "curator": "each person of the curator has",
    "agent": "each agent has",
    "together": "a row of the file that both read has",
}
"""To whom a run promises what its result says."""
OVER_ALL_RUNS = {"curator": "the curator's people", "agent": "the population's people"}
"""Whose spending over all runs a result names."""
SIMULATED = "simulated: the run's seed is enough to undo the noise, so nothing of this is promised to real people"
"""What is said of people whose randomness may come from a seed."""
TRUTHS = {"loss_on_target": "true loss on T", "correct": "in truth"}
"""How a truth that was left out is called; a baseline is called by its name."""
MAX_MODEL_LINES = 80  # lines of a model that are shown


def run_view(scenario: ResolvedScenario, result: Mapping[str, Any], rounds: Sequence[Mapping[str, float]]) -> RunView:
    """Return what is shown of a run that has ended; ``BadData`` if the result is none of the scenario's.

    Its rounds are those of :func:`referee.runs.results.rounds_of`.
    """
    try:
        return _view(scenario, result, rounds)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadData(f"the result of {scenario.name} cannot be read: {error!r}") from None


def _view(scenario: ResolvedScenario, result: Mapping[str, Any], rounds: Sequence[Mapping[str, float]]) -> RunView:
    level, truth = level_of(scenario), result.get("truth") or {}
    estimate = _interval(result["estimate"]) if result["estimate"] and about_a_loss(result) else None
    advised = advice_of(scenario) if scenario.problem is None else None
    return RunView(
        name=plain(scenario.name),
        title=plain(scenario.title),
        description=plain(" ".join(scenario.description.split())),
        status=plain(str(result["status"])),
        protocol=plain(scenario.protocol),
        folder=Path(str(result.get("run", ""))),
        verdict=verdict(scenario, result),
        measure=LOSSES.get(scenario.agents.loss, f"{scenario.agents.loss} loss on the population"),
        promises=tuple(promise(n, result["privacy"][who]) for who, n in PROMISED.items() if who in result["privacy"]),
        gauges=tuple(_gauges(scenario, result)),
        notice=f"People are {SIMULATED}." if scenario.people == "simulated" else "",
        facts=tuple((name, plain(value)) for name, value in _facts(scenario, result)),
        level=level,
        estimate=estimate,
        rounds=tuple(_round(numbers, level, result) for numbers in rounds),
        rounds_note=_rounds_note(scenario) if rounds else "",
        candidates=tuple(_candidate(judged) for judged in result.get("candidates", [])),
        known=tuple(_known(truth)),
        left_out=tuple((TRUTHS.get(name, name), plain(why)) for name, why in truth.get("left_out", {}).items()),
        reading=plain(truth.get("reading", "")),
        warnings=() if advised is None else tuple(plain(warning) for warning in advised.warnings),
        model=tuple(_model(scenario, result)),
    )


def lost(result: Mapping[str, Any]) -> list[str]:
    """Say how many agents were asked and did not answer, and why, as far as that is known."""
    found = result["lost"]
    words = [f"{found['silent']:,} kept silent"] if found["silent"] else []
    if found["declined"]:
        each = ", ".join(f"{reason} {count:,}" for reason, count in found["declined"].items())
        words.append(f"{sum(found['declined'].values()):,} declined: {each}")
    return words


def over_all_runs(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what all runs may have cost the people of each side of this one, as far as a ledger of people knows."""
    signed = result["privacy"].get("all_runs")
    found = result.get("all_runs") or ({"curator": signed} if signed else {})
    for who, total in found.items():
        yield OVER_ALL_RUNS[who], str(Spent.parse(total))


def _candidate(judged: Mapping[str, Any]) -> ChartEntry:
    found = _interval(judged["estimate"])
    return ChartEntry(plain(judged["name"]), found.value, "estimate", found, judged_in_words(judged))


def _interval(wire: Mapping[str, Any]) -> Interval:
    return Interval(wire["value"], wire["low"], wire["high"])


def _gauges(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[Gauge]:
    agents = result["agents"]
    note = "a run asks each agent once; an individual's agent that was not asked keeps its budget"
    yield Gauge("agents asked", agents["asked"], agents["enrolled"], note)
    if halts(scenario):
        note = "the curator's promise covers all rounds that it may be asked for, used or not"
        yield Gauge("rounds used", result["iterations"], scenario.curator.rounds, note)


def _facts(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    agents, truth = result["agents"], result.get("truth") or {}
    yield "status", f"{result['status']} after {result['iterations']} rounds"
    if result["status"] == "done":
        yield "what is shown", shown_by(scenario)
    yield "protocol", scenario.protocol
    yield "agents", f"{agents['asked']:,} asked, {agents['answered']:,} answered, {agents['enrolled']:,} enrolled"
    for words in lost(result):
        yield "lost", words
    for who, words in over_all_runs(result):
        yield f"over all runs, {who}", words
    if "correct" in truth:
        yield "answer", json.dumps(result["answer"])
        yield "in truth", json.dumps(truth)
    elif result["estimate"] and not about_a_loss(result):
        yield "estimate of the agents", interval_in_words(result["estimate"])
    for number, value in enumerate(truth.get("tasks", []), start=1):
        yield f"task {number}", f"true loss {value:.4f} after {result['tasks'][number - 1]['iterations']} rounds"
    if "gap" in result:
        sure = f"with {certainty(result['estimate']['confidence'])} confidence"
        most = math.ceil(result["gap"] * 1e4) / 1e4
        yield "gap", f"{most:.4f}: {sure} the answer's loss exceeds that of the best candidate by no more"
    if truth.get("note"):
        yield "true losses", f"are {truth['note']}"
    yield "seconds", f"{result['seconds'].get('total', 0.0):g}"


def _round(numbers: Mapping[str, float], level: float | None, result: Mapping[str, Any]) -> Round:
    found = _interval(numbers)
    estimate = result["estimate"] or {}
    chosen = all(estimate.get(end) == numbers[end] for end in ("value", "low", "high"))
    shown = chosen and result["status"] == "done" and level is not None and "tasks" not in result
    compared = f"shown to be below {level:g} by the test" if shown else against(found, level)
    return Round(int(numbers["round"]), found, int(numbers["asked"]), interval_in_words(numbers), compared, chosen)


def _rounds_note(scenario: ResolvedScenario) -> str:
    sure = certainty(1.0 - scenario.beta)
    note = f"Intervals are two-sided and hold for all rounds together, with {sure} confidence."
    if halts(scenario) and scenario.agents.test == "sequential":
        note += " The run halts by a one-sided sequential test, which needs fewer answers."
    return note


def _known(truth: Mapping[str, Any]) -> Iterator[ChartEntry]:
    """Go through the true losses that an experiment knows."""
    if "loss_on_target" in truth and "correct" not in truth:
        for name, key, note in (
            ("this run's answer", "loss_on_target", "true loss on the population"),
            ("this run's answer, squared", "mean_squared_error", "true squared loss"),
            ("people labelled -1", "loss_on_negative", "true loss of the answer on them"),
            ("people labelled +1", "loss_on_positive", "true loss of the answer on them"),
        ):
            if truth.get(key) is not None:
                yield ChartEntry(name, truth[key], "truth", note=note)
    for name, found in truth.get("baselines", {}).items():
        yield ChartEntry(plain(name), found["loss_on_target"], "baseline", note=plain(found["note"]))


def _model(scenario: ResolvedScenario, result: Mapping[str, Any]) -> Iterator[str]:
    """Go through the model by the names and units of its columns, where the answer is one and people are of a table."""
    try:
        words = model_lines(released(scenario, dict(result)))
    except BadInput:
        return
    yield from (plain(line) for line in words[:MAX_MODEL_LINES])
    if len(words) > MAX_MODEL_LINES:
        yield f"... ({len(words) - MAX_MODEL_LINES:,} lines more)"


def view_so_far(
    scenario: ResolvedScenario,
    rounds: Sequence[Mapping[str, float]],
    agents: Mapping[str, Any],
    promises: Mapping[str, PrivacyGuarantee],
    status: str,
) -> RunView:
    """Return what is shown of a run that goes on, from what is known so far; raises as :func:`run_view` does."""
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
    found = run_view(scenario, document, rounds)
    return replace(found, verdict=_verdict(scenario, found), facts=())


def _verdict(scenario: ResolvedScenario, view: RunView) -> Verdict:
    if not view.rounds:
        return Verdict("No round has ended yet", f"the run is {view.status}", "open")
    last = view.rounds[-1]
    most = f" of at most {scenario.curator.rounds:,}" if halts(scenario) else ""
    detail = f"its loss on the population is {last.words}" + (f": {last.against}" if last.against else "")
    return Verdict(f"Round {last.number:,}{most} has ended", detail, "open")
