"""How what a run returns is shown in a notebook: the drawings and words of its report, without a page around them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.core import canonical, plain
from common.core.durable import write_durably
from common.core.errors import BadInput
from common.statistics.intervals import certainty
from referee.view import pages
from referee.view.charts import compared
from referee.view.pages import read_run
from referee.view.run_view import run_view
from referee.view.wording import ChartEntry, Interval, RunView, interval_in_words


@dataclass(frozen=True, repr=False)
class Drawing:
    """A chart as SVG (``svg``), which a notebook shows."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> Path:
        """Write the chart to a file; return its path."""
        write_durably(Path(file), self.svg.encode())
        return Path(file)


class DrawnEstimate(dict[str, float]):
    """What the agents' answers show: ``value``, ``low``, ``high``, ``confidence``. A dictionary that can be drawn."""

    def _repr_html_(self) -> str:
        words = f"Estimate of the agents: {interval_in_words(self)}, at {certainty(self['confidence'])} confidence."
        return f"<p>{plain.html(words)}</p>"

    def plot(self) -> Drawing:
        found = Interval(self["value"], self["low"], self["high"])
        entry = ChartEntry("estimate", found.value, "estimate", found)
        return Drawing(compared([entry], None, "estimate of the agents", name=_name(dict(self))))


class Promises(dict[str, Any]):
    """What a run promises to whom, as the result document has it. A dictionary that says itself in plain words."""

    def _repr_html_(self) -> str:
        return pages.promises(self)

    def plot(self) -> Drawing:
        """Draw each epsilon; a smaller one protects more. BadInput if nothing is promised to anybody."""
        return of_epsilons({who: found["epsilon"] for who, found in self.items() if who in pages.PROMISED})


def of_epsilons(epsilons: dict[str, float | None]) -> Drawing:
    """Draw some epsilons, by the key of whom they protect (:data:`referee.view.run_view.PROMISED`)."""
    entries = [
        ChartEntry(pages.PROMISED[who].removesuffix(" has"), value, "baseline")
        for who, value in epsilons.items()
        if value is not None
    ]
    if not entries:
        raise BadInput("nothing is promised to anybody, so that there is no epsilon to be drawn")
    return Drawing(compared(entries, None, "epsilon: privacy loss at most", name=_name(epsilons)))


def view(folder: Path, result: dict[str, Any]) -> RunView:
    """Return what is shown of a result whose run folder holds its scenario; errors are those of ``pages.read_run``."""
    return run_view(read_run(folder)[0], result, result["rounds"])


def html(folder: Path, result: dict[str, Any]) -> str:
    """Return a run as the sections of its report, with the verdict first."""
    return pages.fragment(view(folder, result), _run_name(result))


def drawn(folder: Path, result: dict[str, Any]) -> Drawing:
    """Draw a run: its rounds against the level, else its candidates, else its one estimate."""
    found, name = view(folder, result), _run_name(result)
    if found.rounds:
        return Drawing(str(pages.by_round(found, name)))
    entries = found.candidates
    if not entries and found.estimate is not None:
        entries = (ChartEntry("this run's answer", found.estimate.value, "estimate", found.estimate),)
    if not entries:
        raise BadInput("this run estimated no loss, so that there is nothing to draw; its result has its answer")
    return Drawing(compared(entries, found.level, found.measure, name=name))


def _name(content: Any) -> str:
    return f"tandem-{canonical.digest(content)[:12]}"


def _run_name(result: dict[str, Any]) -> str:
    return _name([result[key] for key in ("scenario", "answer", "estimate", "rounds")])
