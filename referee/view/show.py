"""What people see in a terminal: live progress, tables, and the same as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from common.core.plain import plain
from common.core.terminal import console, say_command, styled
from common.privacy.guarantee import PrivacyGuarantee
from common.scenario.accepting import violations
from common.scenario.fitting import Advice, advice, advice_of
from common.scenario.plan import plan, planned_values, rows, rows_of
from common.scenario.scenario import Scenario
from common.statistics.intervals import Estimate, certainty
from referee.audit.audit import Audit
from referee.view.pace import Outlook, Pace
from referee.view.run_view import PROMISED, SIMULATED, TRUTHS, lost, over_all_runs
from referee.view.witnesses import history_lines, vouching_document, vouching_lines
from referee.view.wording import about_a_loss, ends_in_words, interval_in_words, judged_in_words, silent_in_words

_OUT = console()
_ERR = console(stderr=True)

UNSIGNED = ("truth", "all_runs", "seconds", "peak_memory_bytes", "report.html")
"""What a run folder holds beside the signed result: an experimenter's own findings."""

OnProgress = Callable[[str, dict[str, float]], None]


@contextmanager
def live(scenario: Scenario, seed: int | None, folder: Path, *, quiet: bool) -> Iterator[OnProgress]:
    """Show the progress of a run on stderr, with the time left; fewer and fewer lines where stderr is no terminal."""
    if quiet:
        yield lambda text, numbers: None
        return
    seeded = "" if seed is None else f" (seed {seed})"
    title = [styled((scenario.name, "bold"), (f": {scenario.title}", ""), (seeded, "dim"))]
    title.append(styled((f"run folder: {folder}", "")))
    fits = advice_of(scenario)
    for warning in () if fits is None else fits.warnings:
        title.append(styled((f"before anything is spent: {warning}", "")))
    if not _ERR.is_terminal:
        pace = Pace(_in_log(title))
        yield pace
        pace.flush()
        return
    for line in title:
        _ERR.print(line, soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_ERR, transient=True) as progress:
        task = progress.add_task("starting the parties, bringing the people", total=None)

        def on_progress(text: str, numbers: dict[str, float]) -> None:
            progress.console.print(_line(text, numbers))
            total, done = numbers.get("rounds"), numbers.get("round")
            left = f", {outlook.after(numbers)}" if done else ""
            progress.update(task, description=f"after {plain(text)}{left}", total=total, completed=done)

        outlook = Outlook()
        yield on_progress


def _in_log(title: Sequence[Text]) -> Callable[[str, dict[str, float], str], None]:
    """Print the title with the first progress: a run that cannot begin prints one line only, why."""
    waiting = list(title)

    def add(text: str, numbers: dict[str, float], more: str) -> None:
        while waiting:
            _ERR.print(waiting.pop(0), soft_wrap=True)
        _ERR.print(_line(text, numbers) + (f" ({more})" if more else ""), soft_wrap=True)

    return add


def _line(text: str, numbers: dict[str, float]) -> str:
    if "value" not in numbers:
        return f"  {text}"
    return f"  {text}: loss on T {interval_in_words(numbers)}, {int(numbers['asked']):,} agents asked"


def _add_truth(table: Table, document: dict[str, Any]) -> None:
    """Add what only an experiment can know of the answer's losses."""
    truth = document["truth"]
    if not truth or "loss_on_target" not in truth:
        return
    known = truth.get("note", "only an experiment can know")
    table.add_row("loss on T, true", f"{document['truth']['loss_on_target']:.4f} ({known})")
    if "mean_squared_error" in truth:
        table.add_row("squared loss on T, true", f"{document['truth']['mean_squared_error']:.5f}")
    for label, key in (("-1", "loss_on_negative"), ("+1", "loss_on_positive")):
        if truth.get(key) is not None:
            table.add_row(f"  people labelled {label}", f"{document['truth'][key]:.4f}")
    for number, value in enumerate(truth.get("tasks", []), start=1):
        table.add_row(f"  task {number}", f"{value:.4f} after {document['tasks'][number - 1]['iterations']} rounds")
    for name, baseline in truth.get("baselines", {}).items():
        table.add_row(f"  {name}", f"{baseline['loss_on_target']:.4f}  {baseline['note']}")
    if truth.get("reading"):
        table.add_row("  reading", truth["reading"])


def result(document: dict[str, Any], *, simulated: bool, shown: str = "") -> None:
    """Print the final table of a run, whose people are simulated or real.

    Args:
        shown: What it is that a run of the scenario has shown that ended done
            (:func:`referee.protocols.base.shown_by`).
    """
    table = Table(title=f"{document['scenario']}: {document['status']}", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    silent = silent_in_words(document)
    table.add_row("status", f"{document['status']}: {document['reason']}{'; ' if silent else ''}{silent}")
    if shown and document["status"] == "done":
        table.add_row("what is shown", f"{shown}{IF_NONE_LEFT_OUT if silent else ''}")
    table.add_row("iterations", str(document["iterations"]))
    if document["truth"] and "correct" in document["truth"]:
        table.add_row("answer", json.dumps(document["answer"]))
        found = {name: value for name, value in document["truth"].items() if name != "correct"}
        verdict = "correct" if document["truth"]["correct"] else "wrong"
        table.add_row("in truth", f"{verdict}: {json.dumps(found)} (only an experiment can know)")
    if document["estimate"]:
        e = document["estimate"]
        table.add_row(
            "loss on T, estimated" if about_a_loss(document) else "estimate of the agents",
            f"{interval_in_words(e)}, at {certainty(e['confidence'])}{' among those who answer' if silent else ''}",
        )
    for judged in document.get("candidates", []):
        table.add_row(f"  {judged['name']}", judged_in_words(judged))
    _add_truth(table, document)
    for name, why in (document["truth"] or {}).get("left_out", {}).items():
        table.add_row(f"  {TRUTHS.get(name, name)}", f"left out: {why}")
    agents = document["agents"]
    table.add_row(
        "agents",
        f"{agents['asked']:,} asked, {agents['answered']:,} answered, of {agents['enrolled']:,} enrolled",
    )
    for words in lost(document):
        table.add_row("  lost", words)
    privacy = dict(document["privacy"])
    privacy.pop("all_runs", None)
    for who, promised in privacy.items():
        table.add_row(PROMISED[who], str(PrivacyGuarantee.parse(promised)))
    for who, words in over_all_runs(document):
        table.add_row(f"OVER ALL RUNS, {who}", styled((words, "bold")))
    if simulated:
        table.add_row("people", SIMULATED)
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in document["seconds"].items())
    table.add_row("seconds", seconds)
    table.add_row("peak memory", f"{document['peak_memory_bytes'] / 2**20:,.0f} MiB (largest process)")
    _OUT.print(table)
    _OUT.print(f"run folder: {document['run']}", soft_wrap=True)
    say_command("referee", "audit", Path(document["run"]), lead="Verify it: ")


def budget_table(folder: str, runs: list[dict[str, Any]]) -> None:
    """Print what runs have cost the people of each side."""
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
                f"({charged['epsilon']:g}, {charged['delta']:g})",
                f"{total['runs']}: ({total['epsilon']:g}, {total['delta']:g})",
                promised if lifetime is None else f"({lifetime['epsilon']:g}, {lifetime['delta']:g})",
            )
    _OUT.print(table)


def plans(scenario: Scenario) -> dict[str, Any]:
    """Return both plans of a scenario, the table's rows, what it violates and what its sizes can give, as JSON."""
    fits: Advice | None = None
    if scenario.problem is not None:
        paper, tight = (
            {name: figure.wire() for name, figure in planned_values(scenario, scenario.problem, printed).items()}
            for printed in (True, False)
        )
        beside = rows_of(scenario, scenario.problem)
    else:
        both = plan(scenario, "paper"), plan(scenario, "tight")
        paper, tight = both[0].wire(), both[1].wire()
        beside = rows(*both)
        fits = advice(scenario, int(both[1].n.value), int(both[1].agents.value))
    return {
        "scenario": scenario.name,
        "paper": paper,
        "tight": tight,
        "rows": [row.wire() for row in beside],
        "violations": violations(scenario),
        "advice": None if fits is None else fits.wire(),
        "privacy": {"curator": scenario.curator.guarantee.wire(), "agent": scenario.agents.guarantee.wire()},
    }


IF_NONE_LEFT_OUT = "; if no answer was left out because of what it says"
"""What a statement about those who answer takes where somebody who was asked did not."""
MEANINGS = {
    "rounds": "T, rounds at most",
    "kappa": "kappa, density",
    "eta": "eta, learning rate",
    "sample": "n for the statistics alone",
    "n": "n, people of the curator",
    "steps": "R, SGD steps a round",
    "noise": "sigma/L, noise of a step",
    "draws": "m, draws a round",
    "blocks": "R, blocks of the curator's people",
    "answers": "N0, agents a round at most",
    "answers_clear": "  if the loss on T is 1/2",
    "agents": "agents in all at most",
}
"""What the numbers of a plan are, by their names."""


def plan_table(scenario: Scenario, document: dict[str, Any]) -> None:
    """Print both plans side by side, where each number comes from, what is violated, and what the sizes can give."""
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
        _OUT.print(f"{PROMISED[who]}: {PrivacyGuarantee.parse(promised)}", soft_wrap=True)
    if scenario.people == "simulated":
        _OUT.print(f"people: {SIMULATED}", soft_wrap=True)
    for violation in document["violations"]:
        _OUT.print(styled(("violated", "bold red"), (f" {violation}", "")), soft_wrap=True)
    if document.get("refused"):
        _OUT.print(styled(("a run is refused", "bold red"), (f" {document['refused']}", "")), soft_wrap=True)
    elif not document["violations"]:
        _OUT.print(
            styled(("The scenario keeps every bound of its choice", "bold green"), (f" ({scenario.bounds}).", ""))
        )
    if document["advice"] is not None:
        _OUT.print("What these sizes can give:", style="bold")
        for sentence in document["advice"]["sentences"]:
            _OUT.print(f"  {sentence}", soft_wrap=True)
        for warning in document["advice"]["warnings"]:
            _OUT.print(styled(("cannot help", "bold red"), (f" {warning}", "")), soft_wrap=True)


def figure(value: float | None) -> str:
    """Return a number of a plan as its table shows it."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def audit_document(found: Audit) -> dict[str, Any]:
    """Return what an audit found as JSON.

    ``worst_case`` is what is known of the loss of all people, however those who did not answer differ from those who
    did; ``left_out``, if answers were left out because of what they say.
    """
    could = None if found.silent is None else found.silent.estimate
    return {
        "verified": True,
        "status": found.status,
        "entries": found.entries,
        "operations": found.operations,
        "reports": found.reports,
        "answers": found.answers,
        "privacy": {who: promised.wire() for who, promised in found.promises.items()},
        "certificate": None if found.certificate is None else found.certificate.wire(),
        "other_runs": found.others,
        "pinned": dict(zip(("referee", "curator"), found.pinned, strict=True)),
        "participants": {
            "individuals": found.individuals,
            "hosts": list(found.hosts),
            **vouching_document(found.vouching),
        },
        "history": {
            "began": found.history.began,
            "ended": found.history.ended,
            "witnesses": {key: asdict(sight) for key, sight in found.history.witnesses.items()},
            "promised": list(found.history.promised),
            "receipts": found.history.receipts,
            "other_runs_witnessed": list(found.history.others),
        },
        "liars": {f"{share:g}": could.wire() for share, could in found.liars.items()},
        "order_chosen_by": list(found.choosers),
        "missing": found.missing,
        "misbehaved": found.misbehaved,
        "worst_case": None if could is None else could.wire(),
        "left_out": None if found.left_out is None else found.left_out.wire(),
        "depends_on_silent": found.depends_on_silent,
        "not_covered": list(UNSIGNED),
    }


def _remaining(found: Audit) -> Iterator[str]:
    """Yield what the signatures do not show: whether participants are people, and what those who kept silent think."""
    people, what = sum(found.hosts) + found.individuals, "loss" if found.about_a_loss else "estimate"
    parts, vouching = [], found.vouching
    if found.hosts:
        most = found.hosts[0] / people
        several = f"{len(found.hosts):,} hosts" if len(found.hosts) > 1 else "a host"
        largest = f" (the largest for {most:.0%})" if len(found.hosts) > 1 else ""
        parts.append(f"{several} for {sum(found.hosts):,} people{largest}")
    if found.individuals:
        parts.append(f"{found.individuals:,} individuals")
    if parts:
        word = "" if vouching.issuers else "; that they are people is the word of the referee, and of each host"
        yield f"enrolled: {' and '.join(parts)}{word}"
    yield from vouching_lines(vouching)
    if found.choosers:
        yield f"the order in which agents were asked was chosen by {' and by '.join(found.choosers)}"
    yield from history_lines(found.history)
    if found.misbehaved:
        yield f"the run ended by the curator, which signed what this run does not take: {found.misbehaved}"
    if found.missing > 0.0:
        line = f"answers of up to {found.missing:.1%} of the agents asked are missing"
        could = None if found.silent is None else found.silent.estimate
        if could is not None:
            line += f": however those people differ from the others, the {what} is in {_sure(could)}"
        if found.left_out is not None:
            line += f"; were their answers left out because of what they say, in {_sure(found.left_out)}"
        yield line
    if found.depends_on_silent:
        yield "the result depends on those who did not answer: with all of them against it, it is not shown"
    if found.liars:
        losses = [f"{share:.0%}: {ends_in_words(could.low, could.high)}" for share, could in found.liars.items()]
        sure = certainty(min(could.confidence for could in found.liars.values()))
        yield f"{what} interval if so large a share of the answers counted are lies ({sure}): {', '.join(losses)}"


def _sure(found: Estimate) -> str:
    return f"{ends_in_words(found.low, found.high)} ({certainty(found.confidence)})"


def audit_lines(found: Audit) -> Iterator[str]:
    """Yield what an audit has verified, and what it cannot, sentence by sentence."""
    yield f"{found.entries} transcript entries: chain and signatures hold"
    yield f"{found.operations} curator operations, each signed for exactly its request"
    yield f"{found.answers:,} answers in {found.reports:,} signed reports, in the committed order, none twice"
    for other, agents in found.others.items():
        yield f"{agents:,} agents between were asked by run {other}, whose audit shows it"
    yield "the protocol, replayed on these answers, asks the same questions and ends with the same result"
    if found.shown:
        yield f"what that shows: {found.shown}{IF_NONE_LEFT_OUT if found.missing else ''}"
    yield from _remaining(found)
    if found.certificate is not None:
        yield "what the curator's declared events cost is within what it promised"
        yield f"their certificate ({found.certificate.accountant}) was worked out again by code of its own"
    for who, promised in found.promises.items():
        yield f"{PROMISED[who]}: {promised}"


def audit_table(run: Path, found: Audit) -> None:
    """Print what an audit found, and what no audit of a folder can find."""
    loose = [who for who, pinned in zip(("referee", "curator"), found.pinned, strict=True) if not pinned]
    if loose:
        options = " and ".join(f"--{who}-key" for who in loose)
        whose = f": the {' and the '.join(loose)} of this folder may be anybody"
        rest = f"{whose}; give {options} as you know it from elsewhere"
        _OUT.print(styled(("not pinned", "yellow"), (rest, "")), soft_wrap=True)
    _OUT.print(styled(("verified", "bold green"), (f" {run}: ended {found.status}", "")), soft_wrap=True)
    for line in audit_lines(found):
        _OUT.print(f"  {line}", soft_wrap=True)
    unsigned = f"  not covered, since it is not signed: {', '.join(UNSIGNED)}"
    _OUT.print(unsigned, style="dim", soft_wrap=True)
