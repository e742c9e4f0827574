"""Plan, run and audit scenarios from Python, as the command ``referee`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.core.errors import NotFound, RunFailed
from common.core.machine import works_after_fork
from common.local.hypotheses.hypothesis import Hypothesis, parse_hypothesis
from common.scenario import loading
from common.scenario.resolved import ResolvedScenario
from common.scenario.scenario import Scenario, parse
from deploy.checking import checked, refusal
from deploy.deployment import OnProgress
from deploy.running import carry_out
from referee.audit.audit import Audit as Audit
from referee.audit.audit import audit as audit_folder
from referee.view.show import plans
from tandem.showing import Drawing, DrawnEstimate, Promises, drawn, html

AnyScenario = str | Path | Mapping[str, Any]
"""The name of a shipped scenario, a YAML file, or a tree of the same keys."""


@dataclass(frozen=True)
class Run:
    """A run that ended with an answer: the document of ``result.json``, and the run folder for :func:`audit`."""

    result: dict[str, Any]
    folder: Path

    @property
    def status(self) -> str:
        """``done`` where it ended with its answer, ``exhausted`` where the rounds or the agents were used up before."""
        return str(self.result["status"])

    @property
    def estimate(self) -> DrawnEstimate | None:
        """What the agents' answers show: value, low, high, confidence."""
        return None if self.result["estimate"] is None else DrawnEstimate(self.result["estimate"])

    @property
    def privacy(self) -> Promises:
        """The guarantee of each of the curator's people, and of each agent."""
        return Promises(self.result["privacy"])

    def plot(self) -> Drawing:
        """Draw the rounds against the level, else the candidates, else the one estimate, as the report does.

        BadInput says that the run estimated no loss, NotFound that the run folder is gone, with the scenario in it.
        """
        return drawn(self.folder, self.result)

    def _repr_html_(self) -> str | None:
        try:
            return html(self.folder, self.result)
        except NotFound:
            return None  # a notebook then shows the text

    @property
    def hypothesis(self) -> Hypothesis:
        """The answer, where it is a hypothesis: its ``positive`` predicts from features as the scenario maps them."""
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
    """Run a scenario to its result, and leave a run folder that can be audited.

    Args:
        scenario: A shipped name, a YAML file, or a tree.
        overrides: ``KEY=VALUE`` each, as with ``referee run --set``.
        deployment: ``embedded`` (one process), ``processes`` (real HTTP on this machine), or a referee's URL.
        seed: Of everything simulated: the same seed, the same run. Not for real people.
        output: Run folder; an unfinished one is taken up where it was. By default a new one below ``runs``.
        token: Operator token, for a URL.
        on_progress: Called with a text and numbers as the run goes on.

    Raises:
        BadScenario, BadInput, BudgetExceeded: If the run is refused beforehand; nothing is charged then.
        RunFailed: If it ended without an answer; its folder says why.

    Examples:
        >>> import tandem
        >>> found = tandem.run("sparse", "baselines=[]", seed=2)  # doctest: +SKIP
        >>> found.status, found.estimate["high"]  # doctest: +SKIP
    """

    @contextmanager
    def watching(chosen: ResolvedScenario, drawn: int | None, folder: Path) -> Iterator[OnProgress]:
        yield on_progress

    place = None if output is None else Path(output)
    result = carry_out(_asked(scenario, overrides), deployment, seed=seed, output=place, token=token, watching=watching)
    if result["status"] in ("refused", "failed"):
        raise RunFailed(f"the run was {result['status']}: {result['reason']}; see {result['run']}")
    return Run(result, Path(result["run"]))


@works_after_fork
def plan(scenario: AnyScenario, *overrides: str) -> dict[str, Any]:
    """Return how many people a scenario needs, by the paper's and by the tight bounds, and what it violates.

    The document of ``referee plan --json``. BadScenario says that it is not valid, or a number at ``plan`` has no
    value.
    """
    asked = _asked(scenario, overrides)
    refused = refusal(checked(asked))
    return {**plans(asked), "refused": refused and refused.detail}


@works_after_fork
def audit(
    folder: str | Path, *, referee_key: str | None = None, curator_key: str | None = None, strict: bool = False
) -> Audit:
    """Verify a run folder offline: chain, signatures, order, answers, replay, privacy cost; strictly, with both keys.

    AuditFailed says where it fails and why.
    """
    return audit_folder(Path(folder), referee_key, curator_key, strict=strict)


def _asked(scenario: AnyScenario, overrides: tuple[str, ...]) -> Scenario:
    if isinstance(scenario, Mapping):
        return loading.altered(parse(dict(scenario)), overrides)
    return loading.load(str(scenario), list(overrides))
