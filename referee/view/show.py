"""Output on a terminal: live progress and tables, and the same as JSON documents."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from common.core.plain import plain
from common.core.terminal import console, say_command, styled
from common.core.values import PLAN
from common.operations.target_bound import TargetBound
from common.privacy.guarantee import PrivacyGuarantee
from common.privacy.rounding import stated
from common.scenario.accepting import violations
from common.scenario.fitting import Advice, advice, advice_of
from common.scenario.forecasting import forecast, forecast_of
from common.scenario.plan import Plan, plan, planned_values, resolve, rows
from common.scenario.scenario import Scenario
from common.statistics.intervals import certainty
from referee.protocols.base import shown_by
from referee.runfolder import begun
from referee.runs import percents
from referee.runs.percents import AS_IT_IS, PER_CENT, Unit
from referee.runs.verdict import ENDED, about_a_loss, silent_in_words, unit_of, verdict
from referee.view import wording
from referee.view.assumptions import contradictions

_OUT = console()
_ERR = console(stderr=True)
OnProgress = Callable[[str, dict[str, float]], None]


@contextmanager
def live(scenario: Scenario, seed: int | None, folder: Path, *, quiet: bool) -> Iterator[OnProgress]:
    """Show the progress of a run on stderr, with the time left; if stderr is no terminal, lines get rarer over time."""
    if quiet:
        yield lambda text, numbers: None
        return
    seeded = "" if seed is None else f" (seed {seed})"
    title = [styled((scenario.name, "bold"), (f": {scenario.title}", ""), (seeded, "dim"))]
    title.append(styled((f"run folder: {folder}", "")))
    fits, unit = advice_of(scenario), unit_of(scenario)
    expected = None if scenario.agents.count == PLAN else forecast(scenario, int(scenario.agents.count))
    for words in (*(() if fits is None else fits.warnings), *([expected] if expected else [])):
        title.append(styled((f"before anything is spent: {words}", "")))
    if not _ERR.is_terminal:
        pace = ProgressFilter(_in_log(title, unit), unit)
        yield pace
        pace.flush()
        return
    for line in title:
        _ERR.print(line, soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_ERR, transient=True) as progress:
        task = progress.add_task("starting the parties, bringing the people", total=None)

        def on_progress(text: str, numbers: dict[str, float]) -> None:
            progress.console.print(_line(text, numbers, unit))
            total, done = numbers.get("rounds"), numbers.get("round")
            left = f", {outlook.after(numbers)}" if done else ""
            progress.update(task, description=f"after {plain(text)}{left}", total=total, completed=done)

        outlook = ProgressEstimate(unit=unit)
        yield on_progress


def _in_log(title: Sequence[Text], unit: Unit) -> Callable[[str, dict[str, float], str], None]:
    """Print the title with the first progress; a run that cannot begin then prints one line only, the reason."""
    waiting = list(title)

    def add(text: str, numbers: dict[str, float], more: str) -> None:
        while waiting:
            _ERR.print(waiting.pop(0), soft_wrap=True)
        _ERR.print(_line(text, numbers, unit) + (f" ({more})" if more else ""), soft_wrap=True)

    return add


def _line(text: str, numbers: dict[str, float], unit: Unit) -> str:
    if "value" not in numbers:
        return f"  {text}"
    loss = percents.estimate_or_vague(numbers, unit=unit)
    return f"  {text}: loss on T {loss}, {int(numbers['asked']):,} agents asked"


def _add_truth(table: Table, document: dict[str, Any], unit: Unit) -> None:
    truth = document["truth"]
    if not truth or "loss_on_target" not in truth:
        return
    note = truth.get("note", "only an experiment can know")
    if "tested_loss" in truth:
        tested = percents.exact(truth["tested_loss"], unit) + unit.suffix
        table.add_row("loss on T, true", f"{tested} ({note})")
    if "mean_squared_error" in truth:
        table.add_row("squared loss on T, true", f"{truth['mean_squared_error']:.5f}")
    name = "loss on T, true" if unit == PER_CENT else "share of mistakes, true"
    table.add_row(name, f"{percents.share(truth['loss_on_target'], places=2)} ({note})")
    sides = (("-1", truth.get("loss_on_negative")), ("+1", truth.get("loss_on_positive")))
    for label, share in sides if all(share is not None for _, share in sides) else ():
        table.add_row(f"  people labelled {label}", percents.share(share, places=2))
    for number, value in enumerate(truth.get("tasks", []), start=1):
        used = document["tasks"][number - 1]["iterations"]
        table.add_row(f"  task {number}", f"{percents.share(value, places=2)} after {used} rounds")
    for name, baseline in truth.get("baselines", {}).items():
        table.add_row(f"  {name}", f"{percents.share(baseline['loss_on_target'], places=2)}  {baseline['note']}")
    if truth.get("reading"):
        table.add_row("  reading", truth["reading"])


def result(scenario: Scenario, document: dict[str, Any]) -> None:
    """Print the final table of a run, with its verdict first."""
    conclusion, silent = verdict(scenario, document), silent_in_words(document)
    table = Table(title=f"{document['scenario']}: {conclusion.title}", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row(
        "verdict", styled((conclusion.text, {"good": "green", "open": "yellow", "bad": "red"}[conclusion.tone]))
    )
    table.add_row("the run", f"{ENDED.get(document['status'], document['status'])}: {conclusion.detail}")
    if document["status"] == "done":
        claim = shown_by(scenario, document.get("gap"))
        table.add_row("what is shown", f"{claim}{wording.IF_NONE_LEFT_OUT if silent else ''}")
    table.add_row("iterations", str(document["iterations"]))
    if wording.solves_a_problem(document):
        table.add_row("answer", json.dumps(document["answer"]))
    if document["truth"] and "correct" in document["truth"]:
        facts = {name: value for name, value in document["truth"].items() if name != "correct"}
        right = "correct" if document["truth"]["correct"] else "wrong"
        table.add_row("in truth", f"{right}: {json.dumps(facts)} (only an experiment can know)")
    if document["estimate"]:
        e, among = document["estimate"], " among those who answer" if silent else ""
        of_a_loss = about_a_loss(document)
        words = percents.estimate_or_vague(e, unit_of(scenario) if of_a_loss else AS_IT_IS)
        name = "loss on T, estimated" if of_a_loss else "estimate of the agents"
        table.add_row(name, f"{words}, at {certainty(e['confidence'])}{among}")
        if words := percents.in_own_units(scenario, document):
            table.add_row("  in units of the response", f"{words}{among}")
    if document.get("bound"):
        table.add_row(wording.BOUND, TargetBound.parse(document["bound"]).in_words())
    if quality := wording.quality_of(document):
        for name, words in wording.rates_in_words(quality):
            table.add_row(name, words)
    for candidate in document.get("candidates", []):
        table.add_row(f"  {candidate['name']}", wording.judged_in_words(candidate, unit=unit_of(scenario)))
    for words in contradictions(resolve(scenario), document):
        table.add_row("assumption contradicted", words)
    _add_truth(table, document, unit_of(scenario))
    for name, why in (document["truth"] or {}).get("left_out", {}).items():
        table.add_row(f"  {wording.TRUTHS.get(name, name)}", f"left out: {why}")
    table.add_row("agents", wording.agents_in_words(document["agents"]))
    for words in wording.lost(document):
        table.add_row("  lost", words)
    for who, promised in document["privacy"].items():
        if who != "all_runs":
            table.add_row(wording.PROMISED[who], str(PrivacyGuarantee.parse(promised)))
    for who, words in wording.over_all_runs(document):
        table.add_row(f"OVER ALL RUNS, {who}", styled((words, "bold")))
    if scenario.people == "simulated":
        table.add_row("people", wording.SIMULATED)
    table.add_row("seconds", ", ".join(f"{name} {value:.1f}" for name, value in document["seconds"].items()))
    table.add_row("peak memory", f"{document['peak_memory_bytes'] / 2**20:,.0f} MiB (largest process)")
    _OUT.print(table)
    _OUT.print(f"run folder: {document['run']}", soft_wrap=True)
    if begun(Path(document["run"])):
        say_command("referee", "audit", Path(document["run"]), lead="Verify it: ")


def budget_table(folder: str, runs: list[dict[str, Any]]) -> None:
    """Print the privacy budget that runs have cost the people of each side."""
    if not runs:
        _OUT.print(f"{folder}: no run has been charged to anybody", soft_wrap=True)
        return
    _OUT.print(folder, soft_wrap=True)
    table = Table(box=None)
    for name in ("charged", "scenario", "side", "people", "this run", "all their runs", "lifetime"):
        table.add_column(name, justify="right" if name == "people" else "left")
    for run in runs:
        promised = "experiment" if run["experiment"] else "one run"
        sides = {"curator": run if run["people"] is not None else None, "agents": run["agents"]}
        for side, charged in sides.items():
            if charged is None:
                continue
            total, lifetime = charged["all_runs"], charged["lifetime"]
            table.add_row(
                run["time"][:16].replace("T", " "),
                run["scenario"],
                side,
                f"{charged['people']:,}",
                f"({stated(charged['epsilon'])}, {stated(charged['delta'])})",
                f"{total['runs']}: ({stated(total['epsilon'])}, {stated(total['delta'])})",
                promised if lifetime is None else f"({lifetime['epsilon']:g}, {lifetime['delta']:g})",
            )
    _OUT.print(table)


def plans(scenario: Scenario) -> dict[str, Any]:
    """Return as JSON both plans of a scenario, the table's rows, violated bounds, and what its sizes can achieve."""
    fits: Advice | None = None
    expected: str | None = None
    own: Plan | None = None
    if scenario.problem is not None:
        numbers = [planned_values(scenario, scenario.problem, printed) for printed in (True, False)]
        paper, tight = ({name: value.wire() for name, value in values.items()} for values in numbers)
    else:
        both = plan(scenario, "paper"), plan(scenario, "tight")
        own = both[0] if scenario.bounds == "paper" else both[1]
        paper, tight = both[0].wire(), both[1].wire()
        numbers = [variant.numbers for variant in both]
        fits = advice(scenario, int(both[1].n.value), int(both[1].agents.value))
        expected = forecast(scenario, int(both[1].agents.value))
        if fits is not None and expected is not None and expected not in fits.sentences:
            expected = forecast_of(f"protocol {scenario.protocol}, which the scenario names", expected)
            named = (forecast_of(f"protocol {fits.protocol}, which fits", sentence) for sentence in fits.sentences)
            fits = fits.model_copy(update={"sentences": tuple(named)})
    return {
        "scenario": scenario.name,
        "paper": paper,
        "tight": tight,
        "rows": [row.wire() for row in rows(*numbers)],
        "violations": violations(scenario, own),
        "forecast": expected,
        "advice": None if fits is None else fits.wire(),
        "privacy": {"curator": scenario.curator.guarantee.wire(), "agent": scenario.agents.guarantee.wire()},
    }


MEANINGS = {
    "rounds": "T, rounds at most",
    "kappa": "kappa, density",
    "eta": "eta, learning rate",
    "sample": "n for the statistics alone",
    "n": "n, people of the curator",
    "bound": "B, the loss that counts as 1",
    "steps": "R, SGD steps a round",
    "noise": "sigma/L, noise of a step",
    "look": "mu of a call's first look",
    "draws": "m, draws a round",
    "blocks": "R, blocks of the curator's people",
    "alone": "n, the curator alone, not private",
    "answers": "N0, agents a round at most",
    "answers_clear": "  if the loss on T is 1/2",
    "agents": "agents in all at most",
    "theorem_queries": "m by the theorems",
    "theorem_cutoff": "T by the theorems",
    "theorem_chunks": "k by the theorems",
    "theorem_people": "n by the theorems",
}
"""The meanings of a plan's numbers, by name."""


def plan_table(scenario: Scenario, document: dict[str, Any]) -> None:
    """Print both plans side by side, each number's source, violated bounds, and what the sizes can achieve."""
    title = f"{scenario.name}: alpha {scenario.alpha:g}, beta {scenario.beta:g}; the scenario uses {scenario.bounds}"
    table = Table("", "paper", "tight", title=title, title_justify="left")
    table.columns[1].justify = table.columns[2].justify = "right"
    for row in document["rows"]:
        table.add_row(MEANINGS.get(row["name"], row["name"]), figure(row["paper"]), figure(row["tight"]))
    _OUT.print(table)
    _OUT.print("Where they come from:", style="bold")
    for row in document["rows"]:
        _OUT.print(f"  {row['name']} (tight): {row['tight_source']}", style="dim", soft_wrap=True)
        if row["paper_source"] != row["tight_source"]:
            _OUT.print(f"  {row['name']} (paper): {row['paper_source']}", style="dim", soft_wrap=True)
    for who, promised in document["privacy"].items():
        _OUT.print(f"{wording.PROMISED[who]}: {PrivacyGuarantee.parse(promised)}", soft_wrap=True)
    if scenario.people == "simulated":
        _OUT.print(f"people: {wording.SIMULATED}", soft_wrap=True)
    for violation in document["violations"]:
        _OUT.print(styled(("violated", "bold red"), (f" {violation}", "")), soft_wrap=True)
    if document.get("refused"):
        _OUT.print(styled(("a run is refused", "bold red"), (f" {document['refused']}", "")), soft_wrap=True)
    elif not document["violations"]:
        note = ("The scenario keeps every bound of its choice", "bold green"), (f" ({scenario.bounds}).", "")
        _OUT.print(styled(*note))
    if document["forecast"] is not None:
        _OUT.print(document["forecast"], soft_wrap=True)
    if document["advice"] is not None:
        _OUT.print("What these sizes can give:", style="bold")
        for sentence in document["advice"]["sentences"]:
            if sentence != document["forecast"]:
                _OUT.print(f"  {sentence}", soft_wrap=True)
        for warning in document["advice"]["warnings"]:
            _OUT.print(styled(("cannot help", "bold red"), (f" {warning}", "")), soft_wrap=True)


def figure(value: float | None) -> str:
    """Format a number of a plan for its table."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


Numbers = Mapping[str, float]
Say = Callable[[str, dict[str, float], str], None]
"""Takes a text, its numbers, and a text to add about time and trend."""


class ProgressEstimate:
    """Estimates from the rounds so far how long the remaining ones take at most, and the trend of the loss."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, unit: Unit = PER_CENT) -> None:
        self._now = now
        self._unit = unit
        self._began: tuple[float, float] | None = None
        self._before: Numbers | None = None

    def after(self, numbers: Numbers, *, last: bool = False) -> str:
        """Return the text to show after a round; ``last``: no further round follows, even if more were allowed."""
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

    def _trend(self, before: Numbers, now: Numbers) -> str:
        change, since = now["value"] - before["value"], f"since round {before['round']:.0f}"
        if now["low"] <= before["high"] and before["low"] <= now["high"]:
            return f"level within the intervals {since}"
        by = percents.points(abs(change), up=True, unit=self._unit)
        return f"{'up' if change > 0 else 'down'} by {by} {since}"


def in_time(seconds: float) -> str:
    """Return a duration as text, in a suitable unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(1, round(seconds))} s"


class ProgressFilter:
    """Filters progress for a log: passes on all that is no round, rounds with one significant digit, and the last."""

    def __init__(self, say: Say, unit: Unit = PER_CENT) -> None:
        self._say = say
        self._outlook = ProgressEstimate(unit=unit)
        self._waiting: tuple[str, dict[str, float]] | None = None
        self._last = 0.0

    def __call__(self, text: str, numbers: dict[str, float]) -> None:
        number = numbers.get("round")
        if number is None:
            self.flush()
            self._say(text, numbers, "")
            return
        if number <= self._last:
            self.flush()
        self._last = number
        digits = len(str(int(number)))
        one_digit = number % 10 ** (digits - 1) == 0  # 1 to 10, 20, 30, ..., 100, 200, ...
        if one_digit or number == numbers.get("rounds"):
            self._waiting = None
            self._say(text, numbers, self._outlook.after(numbers))
        else:
            self._waiting = text, numbers

    def flush(self) -> None:
        if self._waiting is not None:
            (text, numbers), self._waiting = self._waiting, None
            self._say(text, numbers, self._outlook.after(numbers, last=True))
