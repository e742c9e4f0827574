"""HTML of finished runs, read from their folders: every value is escaped, except the drawings made here."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from common.core.durable import write_durably
from common.core.errors import BadData, BadMessage, BadScenario, NotFound
from common.core.folder import present
from common.net.rendering import page_environment, style
from common.scenario.scenario import ResolvedScenario, parse_resolved
from referee.runfolder import not_ended, read_result, read_scenario
from referee.runs import percents
from referee.runs.percents import PER_CENT, Unit
from referee.runs.verdict import LOSSES
from referee.view import charts
from referee.view.wording import PROMISED as PROMISED
from referee.view.wording import ChartEntry, Interval, RunView, promise, run_view


@cache
def environment() -> Environment:
    """Return the templates, with autoescaping on for all of them."""
    jinja = page_environment(__name__.rpartition(".")[0])
    jinja.globals |= {"by_round": _by_round, "compared": _compared, "comparisons": _comparisons, "weights": _weights}
    jinja.globals |= {"exact": percents.exact, "per_cent": PER_CENT, "estimate": _estimate}
    jinja.globals["mistakes"] = LOSSES["zero-one"]
    return jinja


def report(views: Sequence[RunView]) -> str:
    """Return one self-contained HTML page about finished runs; with several runs a comparison comes first."""
    # The style sheet is a file of this package, not untrusted text.
    return environment().get_template("report.html").render(views=views, style=Markup(style()))  # noqa: S704


def fragment(view: RunView, name: str) -> str:
    """Return a finished run as HTML to embed in another page: no style sheet, and ids that begin with ``name``."""
    return environment().get_template("fragment.html").render(view=view, name=name)


def promises(wire: Mapping[str, Any], notice: str = "") -> str:
    """Return the guarantees of a result document (the keys of :data:`PROMISED`) in words and formulas."""
    view = {"promises": [promise(name, wire[who]) for who, name in PROMISED.items() if who in wire], "notice": notice}
    return environment().get_template("promises.html").render(view=view)


def write_report(file: Path, views: Sequence[RunView]) -> None:
    """Write the page durably; the same runs give the same bytes."""
    write_durably(file, report(views).encode("utf-8", "backslashreplace"))


def by_round(view: RunView, name: str, narrow: bool = False) -> str:
    """Return the chart of a run's rounds; ``name`` must be unique among the drawings on a page."""
    shares = [entry for entry in view.known_mistakes if entry.kind == "baseline" or entry.name == "this run's answer"]
    lines = view.known[:1] if view.unit != PER_CENT else shares  # a chart shows losses of one kind
    arguments = view.rounds, view.level, lines, view.measure
    return charts.by_round(*arguments, name=name, unit=view.unit, narrow=narrow)


def _by_round(view: RunView, name: str) -> Markup:
    return _of_both_widths(partial(by_round, view), name)


def _compared(entries: Sequence[ChartEntry], level: float | None, measure: str, name: str, unit: Unit) -> Markup:
    return _of_both_widths(partial(charts.compared, entries, level, measure, unit=unit), name)


def _weights(terms: Sequence[tuple[str, float]], name: str) -> Markup:
    return _of_both_widths(partial(charts.weights, terms, "what a feature adds to the sum, at most"), name)


def _of_both_widths(draw: Callable[..., str], name: str) -> Markup:
    """Return a drawing, with a narrow variant that the style sheet shows instead on small screens."""
    # A drawing escapes all of its text: charts._text and charts._svg.
    wide, narrow = draw(name=name), draw(name=f"{name}-narrow", narrow=True)
    return Markup(f'<div class="roomy">{wide}</div><div class="narrow" hidden>{narrow}</div>')  # noqa: S704


def _estimate(interval: Interval, unit: Unit) -> str:
    return percents.estimate_or_vague(vars(interval), unit)


def _comparisons(views: Sequence[RunView]) -> list[tuple[str, Unit, list[ChartEntry]]]:
    """Return the runs' estimates grouped by what they measure: losses of two kinds never share an axis."""
    groups: dict[tuple[str, Unit], list[ChartEntry]] = {}
    for number, view in enumerate(views, start=1):
        if view.estimate is not None:
            entry = ChartEntry(f"{number}. {view.name}", view.estimate.value, "estimate", view.estimate)
            groups.setdefault((view.measure, view.unit), []).append(entry)
    return [(*measured, entries) for measured, entries in groups.items()]


def read_run(folder: Path) -> tuple[ResolvedScenario, dict[str, Any]]:
    """Return a finished run's scenario and result.

    NotFound if the folder is no run folder, or the run has not ended. BadData if one of its files is damaged, or was
    written by another version.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no run folder {folder}")
    if not present(folder, "result.json") and present(folder, "claim.json"):
        raise NotFound(not_ended(folder))
    tree, document = read_scenario(folder), read_result(folder)
    try:
        chosen = parse_resolved(tree)
    except (BadScenario, BadMessage) as error:
        raise BadData(
            f"{folder}/scenario.yaml does not fit this version of Tandem: {error.detail}; was it written by a newer "
            "version, or changed?"
        ) from None
    return chosen, document


def view_of(folder: Path) -> RunView:
    """Return the view of a finished run folder; raises as :func:`read_run` does."""
    scenario, result = read_run(folder)
    rounds = result.get("rounds")
    if not isinstance(rounds, list | tuple) or not all(isinstance(numbers, dict) for numbers in rounds):
        raise BadData(f"{folder}/result.json: rounds must be a list of mappings")
    return run_view(scenario, result, rounds)
