"""HTML of a run, from templates in which every value is escaped unless it is a drawing of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from common.core.durable import write_durably
from common.net.page.pages import page_environment, style
from referee.view.face import charts
from referee.view.face.building import PROMISED as PROMISED
from referee.view.face.values import Entry, RunView
from referee.view.face.wording import promise

_FILES = resources.files(__name__.rpartition(".")[0])


@cache
def environment() -> Environment:
    """Return the templates, with autoescaping on for all of them."""
    made = page_environment(FunctionLoader(lambda name: (_FILES / "templates" / name).read_text("utf-8")))
    made.globals["by_round"] = by_round
    made.globals["compared"] = _compared
    made.globals["comparisons"] = _comparisons
    return made


def report(views: Sequence[RunView]) -> str:
    """Return one self-contained HTML page about finished runs; of several, a comparison stands first."""
    # The style sheet is a file of this package, not anybody's text.
    return environment().get_template("report.html").render(views=views, style=Markup(style()))  # noqa: S704


def fragment(view: RunView, name: str) -> str:
    """Return a finished run as HTML for a page of somebody else's: without a style sheet, headings from the second on.

    Parameters
    ----------
    name
        Prefix of the ids in it.
    """
    return environment().get_template("fragment.html").render(view=view, name=name)


def promises(wire: Mapping[str, Any], notice: str = "") -> str:
    """Return guarantees, as a result document has them by the keys of :data:`PROMISED`, in words and formulas."""
    found = {"promises": [promise(name, wire[who]) for who, name in PROMISED.items() if who in wire], "notice": notice}
    return environment().get_template("promises.html").render(view=found)


def write_report(file: Path, views: Sequence[RunView]) -> None:
    """Write the page, durably; the same runs give the same bytes."""
    write_durably(file, report(views).encode("utf-8", "backslashreplace"))


def by_round(view: RunView, name: str) -> Markup:
    """Return the chart of a run's rounds; another name for each drawing on a page."""
    # The drawing escapes every text in it: charts._text and charts._svg.
    return Markup(charts.by_round(view.rounds, view.level, _lines(view), view.measure, name=name))  # noqa: S704


def _compared(entries: Sequence[Entry], level: float | None, measure: str, name: str) -> Markup:
    return Markup(charts.compared(entries, level, measure, name=name))  # noqa: S704


def _comparisons(views: Sequence[RunView]) -> list[tuple[str, list[Entry]]]:
    """Return the runs' estimates by what they measure: losses of two kinds are never put on one axis."""
    found: dict[str, list[Entry]] = {}
    for number, view in enumerate(views, start=1):
        if view.estimate is not None:
            entry = Entry(f"{number}. {view.name}", view.estimate.value, "estimate", view.estimate)
            found.setdefault(view.measure, []).append(entry)
    return list(found.items())


def _lines(view: RunView) -> tuple[Entry, ...]:
    """Return the true losses that belong into the picture of the rounds: of the answer and of whole baselines."""
    return tuple(e for e in view.known if e.kind == "baseline" or e.name == "this run's answer")
