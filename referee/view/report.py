"""The report of a run folder: a page to read, and the figure of the run."""

from __future__ import annotations

import html
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common.core.errors import BadInput
from common.core.plain import plain
from common.models.model import released
from common.models.showing import lines as model_lines
from common.privacy.guarantee import Guarantee
from common.scenario.resolved import ResolvedScenario
from common.vocabulary.demands.base import demands_of
from common.wire.state import write_durably
from referee.view.intervals import in_words

History = list[dict[str, float]]
"""The numbers of each round, as the protocol noted them."""
TRUTHS = {"loss_on_target": "true loss on T", "correct": "in truth"}
"""How a truth that was left out is called; a baseline is called by its name."""
PROMISED = {
    "curator": "each person of the curator has",
    "agent": "each agent has",
    "together": "a row of the file that both read has",
}
"""To whom a run promises what its result says."""
MAX_MODEL_LINES = 80
"""Lines of a model that a report shows."""
SIMULATED = "simulated: whoever knows the run's seed can undo the noise, so nothing of this is promised to real people"
"""What is said of people whose randomness may come from a seed."""


def write_report(folder: Path, scenario: ResolvedScenario, result: dict[str, Any], history: History) -> None:
    """Write ``report.md``, and ``figures/loss.svg`` and ``.png`` if there are rounds and matplotlib is installed."""
    rounds = [numbers for numbers in history if "round" in numbers and "value" in numbers]
    drawn = bool(rounds or "candidates" in result) and find_spec("matplotlib") is not None
    if drawn:
        draw(folder / "figures", scenario, result, rounds)
    write_durably(folder / "report.md", _page(scenario, result, rounds, drawn).encode())


def draw(folder: Path, scenario: ResolvedScenario, result: dict[str, Any], rounds: History) -> None:
    """Draw the estimated loss on T of every round with its interval, the level, and the true losses that are known.

    Where candidates were judged there is one point for each of them in the place of the rounds.
    """
    # Only here: matplotlib takes long to import, and no service needs it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    judged = result.get("candidates", [])
    points = [candidate["estimate"] for candidate in judged] or rounds
    numbers = [float(place + 1) for place in range(len(judged))] or [r["round"] for r in rounds]
    below = [r["value"] - r["low"] for r in points]
    above = [r["high"] - r["value"] for r in points]
    axes.errorbar(
        numbers, [r["value"] for r in points], yerr=[below, above], fmt="o", capsize=3, color="#1f4e79",
        label=f"agents' estimate, {result['estimate']['confidence']:.0%} interval",
    )  # fmt: skip
    if halts(scenario):
        level = scenario.accuracy.halt_below * scenario.alpha
        axes.axhline(level, color="#1b7f3b", linestyle="--", label=f"halts when shown to be below {level:g}")
    truth = result["truth"]
    if truth is not None and "loss_on_target" in truth:
        true_loss = truth.get("mean_squared_error", truth["loss_on_target"])
        kind = "squared" if "mean_squared_error" in truth else "0/1"
        axes.axhline(true_loss, color="#b3261e", label=f"true {kind} loss of the answer, {true_loss:.3f}")
        styles = {"curator-only": ":", "agents-only": (0, (1, 4)), "agents-once": (0, (4, 4)), "optimum": "-."}
        for name, found in truth.get("baselines", {}).items():
            value = found["loss_on_target"]
            axes.axhline(value, color="#777777", linestyle=styles[name], label=f"{name}, {value:.3f}")
    axes.set(
        xlabel="" if judged else "round",
        ylabel=f"{scenario.agents.loss} loss on the population T",
        title=f"{scenario.name}: {result['status']}",
        ylim=(0, None),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if judged:
        axes.set_xticks(numbers, [candidate["name"].replace(", ", "\n") for candidate in judged], fontsize=8)
    axes.legend(fontsize=8)
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"loss.{suffix}", dpi=150, metadata={"Date": None} if suffix == "svg" else None)


def interval(judged: dict[str, Any]) -> str:
    """Return what the agents say of a candidate, in words."""
    return f"{in_words(judged['estimate'])}, {judged['asked']:,} agents"


def halts(scenario: ResolvedScenario) -> bool:
    """Tell whether a run of the scenario halts where the loss on T is shown to be below a level."""
    return scenario.mode == "realizable" and scenario.problem is None and demands_of(scenario.protocol).reweighs


def _page(scenario: ResolvedScenario, result: dict[str, Any], rounds: History, drawn: bool) -> str:
    privacy = dict(result["privacy"])
    everything = privacy.pop("all_runs", None)
    lines = [
        f"# {_safe(scenario.title)}",
        "",
        _safe(" ".join(scenario.description.split())),
        "",
        f"**{_safe(result['status'])}** after {result['iterations']} rounds: {_safe(result['reason'])}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {PROMISED[who]} | {Guarantee.parse(promised)} |" for who, promised in privacy.items()),
        *([f"| **over all runs of these people** | {over_all_runs(everything)} |"] if everything else []),
        *([f"| people | {SIMULATED} |"] if scenario.people == "simulated" else []),
        f"| agents asked, answered, enrolled | {', '.join(format(result['agents'][k], ',') for k in _COUNTS)} |",
        *(f"| lost | {_safe(words)} |" for words in lost(result)),
        f"| seconds | {result['seconds']['total']} |",
    ]
    for judged in result.get("candidates", []):
        lines.append(f"| {_safe(judged['name'])} | {interval(judged)} |")
    if result["truth"] is not None and "correct" in result["truth"]:
        lines.append(f"| answer | `{json.dumps(result['answer'])}` |")
        lines.append(f"| in truth | `{json.dumps(result['truth'])}` |")
    elif result["truth"] is not None and "loss_on_target" in result["truth"]:
        lines.append(f"| true loss on T | {result['truth']['loss_on_target']:.4f} |")
        if "mean_squared_error" in result["truth"]:
            lines.append(f"| true squared loss on T | {result['truth']['mean_squared_error']:.5f} |")
        for label, key in (("-1", "loss_on_negative"), ("+1", "loss_on_positive")):
            if result["truth"].get(key) is not None:
                lines.append(f"| true loss, people labelled {label} | {result['truth'][key]:.4f} |")
        for number, value in enumerate(result["truth"].get("tasks", []), start=1):
            rounds_of = result["tasks"][number - 1]["iterations"]
            lines.append(f"| task {number}: true loss on T, rounds | {value:.4f}, {rounds_of} |")
    if result["truth"] is not None:
        for name, found in result["truth"].get("baselines", {}).items():
            lines.append(f"| true loss, {name} | {found['loss_on_target']:.4f} ({found['note']}) |")
        for name, why in result["truth"].get("left_out", {}).items():
            lines.append(f"| {TRUTHS.get(name, f'true loss, {name}')} | left out: {why.replace('|', '/')} |")
        if result["truth"].get("note"):
            lines += ["", f"True losses are {result['truth']['note']}."]
        if result["truth"].get("reading"):
            lines += ["", f"Reading: {result['truth']['reading']}."]
    if drawn:
        lines += ["", "![loss on T by round](figures/loss.svg)"]
    elif rounds:
        lines += ["", "(No figure: matplotlib is not installed here; `pip install 'tandem-hybrid[figures]'`.)"]
    if rounds:
        lines += ["", "| round | loss on T | agents asked |", "|---|---|---|"]
        lines += [f"| {r['round']:.0f} | {in_words(r)} | {r['asked']:,.0f} |" for r in rounds]
    if rounds:
        lines += ["", "Intervals are two-sided and hold for all rounds together."]
    if rounds and halts(scenario) and scenario.agents.test == "sequential":
        lines += ["The run halts by a one-sided sequential test, which needs fewer answers."]
    lines += _model(scenario, result)
    lines += ["", "`state/` holds the parties' keys and private state: nothing of it is needed to verify the run."]
    lines += ["", f"Verify this run with `referee audit {result['run']}`.", ""]
    return "\n".join(lines)


def _model(scenario: ResolvedScenario, result: dict[str, Any]) -> list[str]:
    """Return the model by the names and units of its columns, where the answer is one and people are of a table."""
    try:
        words = model_lines(released(scenario, result))
    except BadInput:
        return []
    more = [f"    ... ({len(words) - MAX_MODEL_LINES:,} lines more)"] if len(words) > MAX_MODEL_LINES else []
    return [
        "",
        f"What was learned, by columns (`referee model {result['run']}`):",
        "",
        *(f"    {plain(line)}" for line in words[:MAX_MODEL_LINES]),
        *more,
    ]


def lost(result: dict[str, Any]) -> list[str]:
    """Say how many agents were asked and did not answer, and why, as far as that is known."""
    found = result["lost"]
    words = [f"{found['silent']:,} kept silent"] if found["silent"] else []
    if found["declined"]:
        each = ", ".join(f"{reason} {count:,}" for reason, count in found["declined"].items())
        words.append(f"{sum(found['declined'].values()):,} declined: {each}")
    return words


def _safe(text: str) -> str:
    """Return a text, perhaps a stranger's, of which Markdown and HTML take nothing for a command."""
    escaped = html.escape(plain(text), quote=False)
    return "".join(f"\\{character}" if character in "\\`[]!|" else character for character in escaped)


_COUNTS = ("asked", "answered", "enrolled")


def over_all_runs(total: dict[str, Any]) -> str:
    """Say what all runs of a data set's people may have cost them together."""
    if total["runs"] == 1:
        return f"this is their first: epsilon = {total['epsilon']:g}, delta = {total['delta']:g}"
    return f"epsilon = {total['epsilon']:g}, delta = {total['delta']:g} in {total['runs']} runs"
