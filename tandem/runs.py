"""Plan, run and audit scenarios from Python, like the command ``referee``, and show a run like its report."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.core import canonical, plain
from common.core.durable import write_durably
from common.core.errors import BadInput, NotFound, RunFailed
from common.core.machine import works_after_fork
from common.local.hypotheses.hypothesis import Hypothesis, parse_hypothesis
from common.scenario import loading
from common.scenario.scenario import ResolvedScenario, Scenario, parse
from common.statistics.intervals import certainty
from deploy.checking import checked, refusal
from deploy.deployment import OnProgress
from deploy.running import carry_out
from referee.audit.audit import Audit as Audit
from referee.audit.audit import audit as audit_folder
from referee.runs import percents
from referee.runs.percents import AS_IT_IS
from referee.runs.verdict import Verdict
from referee.view import pages
from referee.view.charts import compared
from referee.view.pages import read_run
from referee.view.show import plans
from referee.view.wording import ChartEntry, Interval, RunView, run_view


@dataclass(frozen=True, repr=False)
class Drawing:
    """A chart as SVG (``svg``), which a notebook shows."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> Path:
        write_durably(Path(file), self.svg.encode())
        return Path(file)


class DrawnEstimate(dict[str, float]):
    """An estimate from the agents' answers: ``value``, ``low``, ``high``, ``confidence``. A dictionary with a plot."""

    def _repr_html_(self) -> str:
        words = f"Estimate of the agents: {percents.estimate_or_vague(self)}"
        return f"<p>{plain.html(words)}, at {certainty(self['confidence'])} confidence.</p>"

    def plot(self) -> Drawing:
        interval = Interval(self["value"], self["low"], self["high"])
        entry = ChartEntry("estimate", interval.value, "estimate", interval)
        return Drawing(compared([entry], None, "estimate of the agents", name=_name(dict(self))))


class Promises(dict[str, Any]):
    """A run's privacy guarantees by whom they protect, as in the result document. A dictionary with text and plot."""

    def _repr_html_(self) -> str:
        return pages.promises(self)

    def plot(self) -> Drawing:
        """Draw each epsilon; a smaller one protects more. BadInput if there is no guarantee."""
        return of_epsilons({who: guarantee["epsilon"] for who, guarantee in self.items() if who in pages.PROMISED})


def of_epsilons(epsilons: dict[str, float | None]) -> Drawing:
    """Draw epsilons, each by the key of the people that it protects (:data:`referee.view.wording.PROMISED`)."""
    entries = [
        ChartEntry(pages.PROMISED[who].removesuffix(" has"), value, "baseline")
        for who, value in epsilons.items()
        if value is not None
    ]
    if not entries:
        raise BadInput("nothing is promised to anybody, so that there is no epsilon to be drawn")
    svg = compared(entries, None, "epsilon: privacy loss at most", name=_name(epsilons), unit=AS_IT_IS)
    return Drawing(svg)


def view(folder: Path, result: dict[str, Any]) -> RunView:
    """Return the view of a result whose run folder holds its scenario; raises as ``pages.read_run`` does."""
    return run_view(read_run(folder)[0], result, result["rounds"])


def _name(content: Any) -> str:
    return f"tandem-{canonical.digest(content)[:12]}"


def run_name(result: dict[str, Any]) -> str:
    """Return the name of a run on a page, derived from its result."""
    return _name([result[key] for key in ("scenario", "answer", "estimate", "rounds")])


AnyScenario = str | Path | Mapping[str, Any]  # the name of a shipped scenario, a YAML file, or a tree of the same keys


@dataclass(frozen=True)
class Run:
    """A run that ended with an answer: the document of ``result.json``, and the run folder for :func:`audit`."""

    result: dict[str, Any]
    folder: Path

    @property
    def status(self) -> str:
        """``done`` if it ended with its answer, ``exhausted`` if the rounds or the agents were used up before."""
        return str(self.result["status"])

    @property
    def verdict(self) -> Verdict:
        """Whether the model is better than what either side has alone, in sentences: ``verdict.text``."""
        return view(self.folder, self.result).verdict

    @property
    def estimate(self) -> DrawnEstimate | None:
        """The estimate from the agents' answers: value, low, high, confidence."""
        return None if self.result["estimate"] is None else DrawnEstimate(self.result["estimate"])

    @property
    def privacy(self) -> Promises:
        """The guarantee of each of the curator's people, and of each agent."""
        return Promises(self.result["privacy"])

    def plot(self) -> Drawing:
        """Draw the rounds against the level, else the candidates, else the one estimate, like the report.

        BadInput if the run estimated no loss; NotFound if the run folder, with the scenario in it, is gone.
        """
        summary, name = view(self.folder, self.result), run_name(self.result)
        if summary.rounds:
            return Drawing(pages.by_round(summary, name))
        entries = summary.candidates
        if not entries and summary.estimate is not None:
            entries = (ChartEntry("this run's answer", summary.estimate.value, "estimate", summary.estimate),)
        if not entries:
            raise BadInput("this run estimated no loss, so that there is nothing to draw; its result has its answer")
        return Drawing(compared(entries, summary.level, summary.measure, name=name, unit=summary.unit))

    def _repr_html_(self) -> str | None:
        try:
            return pages.fragment(view(self.folder, self.result), run_name(self.result))
        except NotFound:
            return None  # a notebook then shows the text

    @property
    def hypothesis(self) -> Hypothesis:
        """The answer, if it is a hypothesis: its ``positive`` predicts from features as mapped by the scenario."""
        return parse_hypothesis(self.result["answer"])


@works_after_fork
def run(
    scenario: AnyScenario,
    *overrides: str,
    deployment: str = "embedded",
    seed: int | None = None,
    output: str | Path | None = None,
    token: str = "",
    on_progress: Callable[[str, dict[str, float]], None] = lambda text, numbers: None,
) -> Run:
    """Run a scenario to its result, and write a run folder that can be audited.

    Args:
        scenario: A shipped name, a YAML file, or a tree.
        overrides: ``KEY=VALUE`` each, as with ``referee run --set``.
        deployment: ``embedded`` (one process), ``processes`` (real HTTP on this machine), or a referee's URL.
        seed: Seed of everything simulated: the same seed gives the same run. Not for real people.
        output: Run folder; an unfinished run in it is resumed. By default a new one below ``runs``.
        token: Operator token, for a URL.
        on_progress: Called with a text and numbers as the run proceeds.

    Raises:
        BadScenario, BadInput, BudgetExceeded: If the run is refused beforehand; nothing is charged then.
        RunFailed: If it ended without an answer; its folder has the reason.

    Examples:
        >>> import tandem
        >>> found = tandem.run("sparse", "baselines=[]", seed=2)  # doctest: +SKIP
        >>> found.status, found.estimate["high"]  # doctest: +SKIP
    """

    @contextmanager
    def watching(resolved: ResolvedScenario, run_seed: int | None, folder: Path) -> Iterator[OnProgress]:
        yield on_progress

    place = None if output is None else Path(output)
    result = carry_out(_parse(scenario, overrides), deployment, seed=seed, output=place, token=token, watching=watching)
    if result["status"] in ("refused", "failed", "cancelled"):
        raise RunFailed(f"the run was {result['status']}: {result['reason']}; see {result['run']}")
    return Run(result, Path(result["run"]))


@works_after_fork
def plan(scenario: AnyScenario, *overrides: str) -> dict[str, Any]:
    """Return how many people a scenario needs, and which bounds it violates: the document of ``referee plan --json``.

    BadScenario if it is not valid, or a number that is ``plan`` cannot be determined.
    """
    parsed = _parse(scenario, overrides)
    refused = refusal(checked(parsed))
    return {**plans(parsed), "refused": refused and refused.detail}


@works_after_fork
def audit(
    folder: str | Path, *, referee_key: str | None = None, curator_key: str | None = None, strict: bool = False
) -> Audit:
    """Verify a run folder offline: chain, signatures, order, answers, replay, privacy cost; strictly, with both keys.

    AuditFailed states where and why the verification fails.
    """
    return audit_folder(Path(folder), referee_key, curator_key, strict=strict)


def _parse(scenario: AnyScenario, overrides: tuple[str, ...]) -> Scenario:
    if isinstance(scenario, Mapping):
        return loading.altered(parse(dict(scenario)), overrides)
    return loading.load(str(scenario), list(overrides))
