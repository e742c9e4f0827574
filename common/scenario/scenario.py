"""Scenarios: what to run, as one YAML file with a closed set of keys.

A scenario is public. Every party reads the same file and uses only its own sections: the curator ``source`` and
``curator``, the agents ``target`` and ``agents``, the referee the rest. :func:`common.scenario.plan.resolve` replaces
the numbers left at ``plan``; what it returns is a :class:`ResolvedScenario`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import Field, ValidationError, model_validator

from common.core import canonical
from common.core.errors import BadScenario, TandemError
from common.core.values import PLAN, Value, explain
from common.data.population import PopulationSpec, PublicPopulationSpec, locate, open_public
from common.data.tables import disjoint
from common.learners.base import AnyLearner, LearnerSettings, parse_settings
from common.local.hypotheses.composed import Task
from common.local.losses import ROUNDING, UNIT
from common.local.records import Records
from common.numerics.randomness import subseed
from common.operations.operation import MOST_MU, Reweigh
from common.privacy.events import Gaussian
from common.privacy.rounding import down
from common.privacy.theorems.gaussian_dp import mu_allowed
from common.protocols.base import DEMANDS, AnyProblem, PlanInputs, demands_of
from common.protocols.portfolio import Portfolio
from common.scenario.sections import (
    Accuracy,
    AgentCount,
    AgentsSection,
    CuratorSection,
    Density,
    Divergence,
    Lifetime,
    Rounds,
    SampleSize,
    Step,
)

LEAST_BETA = 1e-9  # parts of beta are subtracted from 1 in doubles
MAX_HANDED_OVER = 10_000  # reweighs of earlier runs that a run may begin with


class Scenario(Value):
    """One scenario. docs/scenarios.md says what each key means; the shipped ones (``referee list``) are examples.

    Attributes:
        alpha, beta: Accuracy (in 0/1 loss, 0 < alpha < 1/2) and failure probability, 10^-9 at least: beta each for the
            sample, the learner's calls and the tests, 3 beta for the whole run (Theorem 4.3). Where the curator learns
            once: of the agents' estimate.
        vc_dimension: Pseudo-dimension of the loss class, for the sample-size bounds (or ``hypotheses``, the size of a
            finite class). With several tasks: of all their losses together.
        alone: With a problem: leave the other side out, to see that it is needed. The curator's people, or the agents,
            stand by and are never asked.
    """

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")
    title: str
    description: str = ""
    protocol: str = "subsample-test-reweigh"
    alpha: float = Field(gt=0, lt=0.5)
    beta: float = Field(default=0.05, ge=LEAST_BETA, lt=0.5)
    bounds: Literal["tight", "paper"] = "tight"
    mode: Literal["realizable", "agnostic"] = "realizable"
    people: Literal["simulated", "real"] = "simulated"
    experiment: bool = False
    data: str | None = None
    divergence: Divergence = Divergence(chi_squared=1.0)
    accuracy: Accuracy = Accuracy()
    vc_dimension: int | None = Field(default=None, ge=1)
    hypotheses: int | None = Field(default=None, ge=1)
    tasks: tuple[Task, ...] = ()
    handed_over: tuple[Reweigh, ...] = Field(default=(), max_length=MAX_HANDED_OVER, exclude_if=lambda them: not them)
    problem: AnyProblem | None = None
    portfolio: Portfolio | None = Field(default=None, exclude_if=lambda settings: settings is None)
    alone: Literal["curator", "agents"] | None = None
    source: PopulationSpec
    target: PopulationSpec
    public: PublicPopulationSpec | None = None
    curator: CuratorSection
    agents: AgentsSection
    baselines: tuple[Literal["curator-only", "agents-only", "agents-once", "optimum"], ...] = ()

    @property
    def anything_open(self) -> bool:
        return self.curator.anything_open or self.agents.count == PLAN

    @property
    def plan_inputs(self) -> PlanInputs:
        return PlanInputs(
            alpha=self.alpha,
            beta=self.beta,
            n=self.curator.n,
            count=self.agents.count,
            epsilon=self.curator.epsilon,
            learner=self.curator.learner,
            mechanism=self.agents.mechanism,
            dropout=self.agents.dropout,
        )

    @property
    def margins_mu(self) -> float:
        """The mu of a portfolio's count of the curator's people, which is mu-GDP; 0 where the protocol makes no count.

        Its square is a share of that of the mu-GDP releases which the curator's epsilon and delta allow.
        """
        demands, settings = demands_of(self.protocol), self.portfolio or Portfolio()
        if not (demands.portfolio and demands.counts) or settings.teach == 0.0:  # without teachers it has no use
            return 0.0
        epsilon, delta = self.curator.epsilon, self.curator.delta
        if epsilon is None:
            return MOST_MU
        if not delta:
            raise BadScenario(
                "portfolio.margins: the count of the curator's people has Gaussian noise, which takes a positive "
                "curator.delta; or set portfolio.teach to 0: then there is no count"
            )
        return min(MOST_MU, down(math.sqrt(settings.margins) * mu_allowed(epsilon, delta)))

    @property
    def planned_margins(self) -> tuple[Gaussian, ...]:
        """The events of a portfolio's count of the curator's people; none where it makes no count."""
        return (Gaussian(mu=self.margins_mu),) if self.margins_mu else ()

    @property
    def halts(self) -> bool:
        """Whether a run that tests levels may halt before its last round: not an agnostic one without alpha_H."""
        return self.mode == "realizable" or self.accuracy.best is not None

    @property
    def levels(self) -> tuple[float, float]:
        """The loss on T above which a run reweighs, and that below which it halts: alpha_H plus multiples of alpha."""
        best, accuracy = self.accuracy.best or 0.0, self.accuracy
        return best + accuracy.reweigh_above * self.alpha, best + accuracy.halt_below * self.alpha

    @property
    def rounding(self) -> float:
        """How much a round of reweighing can lose because losses are rounded."""
        return ROUNDING if self.agents.tests_convex else 0.0

    @property
    def shares_a_file(self) -> bool:
        """Whether both sides read one file, so that a changed row may leave one side and join the other."""
        source, target = self.source.table, self.target.table
        return source is not None and target is not None and bool(source.plain_names & target.plain_names)

    @property
    def covered(self) -> tuple[float, float, Lifetime | None] | None:
        """What the curator's charge covers of the agents', if both sides read one file: their cost and lifetime."""
        return (*self.agents.cost, self.agents.lifetime) if self.shares_a_file else None

    @model_validator(mode="before")
    @classmethod
    def _tables_are_real(cls, tree: Any) -> Any:
        if isinstance(tree, dict) and "people" not in tree:
            sides = [tree.get(side) for side in ("source", "target")]
            if any(isinstance(side, dict) and side.get("table") is not None for side in sides):
                return {**tree, "people": "real"}
        return tree

    @model_validator(mode="after")
    def _problem_fits(self) -> Self:
        if self.handed_over and not demands_of(self.protocol).takes_over:
            raise ValueError(f"handed_over: the protocol {self.protocol!r} begins with uniform weights: leave it out")
        agents = self.agents
        if (agents.loss == "logistic" or agents.bound != UNIT) and not demands_of(self.protocol).bounded:
            raise ValueError(
                f"agents.loss: {agents.loss} of bound {agents.bound:g} is for protocols that test one hypothesis after "
                f"another, found {self.protocol!r}: take another loss, without a bound"
            )
        demands = demands_of(self.protocol)
        if agents.costs is not None and (demands.reweighs or not demands.transfers):
            raise ValueError(
                f"agents.costs: costs are for protocols that learn one model for the population (portfolio, "
                f"learn-and-test), found {self.protocol!r}: leave them out"
            )
        if self.portfolio is not None and not demands_of(self.protocol).portfolio:
            raise ValueError(f"portfolio is for protocol portfolio, found {self.protocol!r}: leave it out")
        if self.problem is None:
            if self.alone is not None:
                raise ValueError("alone is for scenarios with a problem: leave it out")
            known = self.protocol in DEMANDS.names()  # an unknown protocol is refused by the party that runs it
            if known and "divergence" not in self.model_fields_set and demands_of(self.protocol).reweighs:
                raise ValueError("divergence: must be given, as reweighing rests on it")
            if self.curator.learner is None:
                raise ValueError("curator.learner: give the name of a learner and its settings")
            return self
        if self.tasks or self.baselines:
            raise ValueError(
                "tasks and baselines are for hypotheses with a small loss: leave them out beside a problem"
            )
        for side, people in (("source", self.source), ("target", self.target)):
            if people.dimension != self.problem.dimension:
                prefix = f"problem {self.problem.name} is about {self.problem.dimension} features"
                raise ValueError(f"{prefix}, the {side} people have {people.dimension}")
        return self

    @model_validator(mode="after")
    def _tasks_fit(self) -> Self:
        if self.tasks and not demands_of(self.protocol).several_tasks:
            takes = " or ".join(name for name, demands in DEMANDS.items() if demands.several_tasks)
            raise ValueError(f"tasks are for protocol {takes}, found {self.protocol!r}: leave them out")
        if self.tasks and self.baselines:
            raise ValueError("baselines are for one label and all features: leave them out where there are tasks")
        least = max((task.min_features for task in self.tasks), default=0)
        for side, people in (("source", self.source), ("target", self.target)):
            if people.dimension < least:
                raise ValueError(f"tasks need {least} features, the {side} people have {people.dimension}")
        return self

    @model_validator(mode="after")
    def _people_fit(self) -> Self:
        if self.public is not None and self.public.dimension != self.source.dimension:
            raise ValueError(
                f"public people have {self.public.dimension} features, the curator's {self.source.dimension}: a model "
                f"of one would mean nothing to the other"
            )
        if self.people == "simulated":
            return self
        if self.source.table is None:
            raise ValueError("people: real needs a source table")
        if self.baselines and not self.experiment:
            raise ValueError(
                "baselines look at real people's records beside the run, outside its guarantees: "
                "say experiment: true if they may, or leave baselines out"
            )
        if not self.agents.mechanism.for_real_people:
            raise ValueError(f"people: real cannot be asked with mechanism {self.agents.mechanism.name!r}")
        sides = (("source", self.source), ("target", self.target), ("public", self.public))
        tables = [(name, side.table) for name, side in sides if side is not None and side.table is not None]
        for (one, first), (other, second) in combinations(tables, 2):
            if not disjoint(first, second):
                raise ValueError(
                    f"{one} and {other} read the same file, and a row could be in both, so that what is promised to "
                    f"its person would not hold: give different files, a where with no value in common, or a selection "
                    f"of the same seed and share that keeps volunteers on one side and the population on the other"
                )
        return self

    @model_validator(mode="after")
    def _contributions_are_the_curators(self) -> Self:
        for name, side in (("target", self.target), ("public", self.public)):
            if side is not None and side.table is not None and side.table.contributed:
                raise ValueError(f"{name}.table: people contribute to the curator alone, which is source; give files")
        if self.source.table is None or not self.source.table.contributed:
            return self
        if self.baselines:
            raise ValueError("baselines read people's records beside the run, contributions stay with the curator")
        if self.curator.storage.workers:
            raise ValueError("curator.storage.workers: contributions stay in the curator's own process; leave it out")
        return self

    @model_validator(mode="after")
    def _labels_only(self) -> Self:
        settings, table = self.curator.learner, self.source.table
        if self.people == "simulated" or settings is None or table is None or settings.protected == "records":
            return self
        if not settings.features_are_public:
            raise ValueError(
                "curator.learner.protects: labels leaves the features of the curator's people unprotected: what is "
                "released may hold any of them as it is. Say public_features: true beside it if everybody may see "
                "them, or protects: records"
            )
        labels = frozenset({table.label.column}) | table.columns_of(*settings.class_columns)
        if labels & table.conditions:
            raise ValueError(
                f"source.table: column {min(labels & table.conditions)!r} decides who is in the sample, and is the "
                f"label that alone is protected: leave it out of where and selection"
            )
        return self


def parse(tree: Any, place: Callable[[Sequence[int | str], str], str] = lambda path, kind: "") -> Scenario:
    """Validate a scenario from its YAML/JSON tree; a BadScenario names the first unknown key or wrong value.

    ``place`` returns, after a space, the position of a wrong key, given its path and pydantic's name of the error. The
    path is empty where a whole section is inconsistent.
    """
    try:
        scenario = Scenario.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise BadScenario(explain(error, Scenario) + place(first["loc"], first["type"])) from None
    except TandemError as error:
        raise BadScenario(error.detail + place((), "")) from None
    parsed = scenario.wire()
    if scenario.curator.learner is not None:
        parsed["curator"]["learner"] = scenario.curator.learner.model_dump(mode="json")  # as parsed, not as written
    for path in _truth_values(tree, parsed):  # pydantic accepts them as 1 and 0
        location, kinds = ".".join(map(str, path)), "a truth value (yes, no, on, off, true or false)"
        raise BadScenario(f"{location}: Input should be a number, found {kinds}{place(path, 'bool')}")
    return scenario


def _truth_values(raw: Any, parsed: Any) -> Iterator[tuple[int | str, ...]]:
    """Yield the paths where ``raw`` has a truth value that was parsed to something else in ``parsed``."""
    if isinstance(raw, bool) and not isinstance(parsed, bool):
        yield ()
    elif isinstance(raw, dict) and isinstance(parsed, dict):
        yield from (
            (name, *path) for name in raw.keys() & parsed.keys() for path in _truth_values(raw[name], parsed[name])
        )
    elif isinstance(raw, list | tuple) and isinstance(parsed, list):
        for place, pair in enumerate(zip(raw, parsed, strict=False)):
            yield from ((place, *path) for path in _truth_values(*pair))


def data_folder(scenario: Scenario) -> Path | None:
    """Return the directory of the scenario's table files."""
    return None if scenario.data is None else locate(scenario.data)


def public_sample(scenario: Scenario, seed: int) -> Records | None:
    """Return the scenario's public sample for the run's seed, None if it has none; every party gets the same."""
    if scenario.public is None:
        return None
    return open_public(scenario.public, data_folder(scenario), subseed(seed, "public"))


def policy_digest(scenario: Scenario) -> str:
    """Return the SHA-256 of what a curator agrees to: its people's source, the public sample's, and its section."""
    wire = scenario.wire()
    return canonical.digest({part: wire[part] for part in ("people", "source", "public", "curator")})


class ResolvedCurator(CuratorSection):
    """A curator's policy with all numbers known."""

    n: SampleSize
    kappa: Density | None
    eta: Step
    rounds: Rounds
    learner: AnyLearner | None = None

    @property
    def settings(self) -> LearnerSettings:
        return cast(LearnerSettings, super().settings)

    @property
    def share(self) -> float:
        """The epsilon of one of ``rounds`` pure releases: epsilon / rounds, rounded down; refused if there is none."""
        if self.epsilon is None:
            raise BadScenario("curator.epsilon: this protocol needs a private curator")
        return self.epsilon if self.rounds == 1 else down(self.epsilon / self.rounds)


class ResolvedAgents(AgentsSection):
    """The agents' side, with their number known."""

    count: AgentCount


class ResolvedScenario(Scenario):
    """A scenario that can be run: :func:`common.scenario.plan.resolve` makes one, in which no number is ``plan``."""

    curator: ResolvedCurator
    agents: ResolvedAgents


def settled(scenario: Scenario) -> ResolvedScenario:
    """Return a scenario without open values as a resolved one; BadScenario if a value is open."""
    if isinstance(scenario, ResolvedScenario):
        return scenario
    if scenario.anything_open:
        raise BadScenario("a run needs a resolved scenario: a value is still at 'plan'")
    curator, agents = ResolvedCurator(**_fields_set(scenario.curator)), ResolvedAgents(**_fields_set(scenario.agents))
    return ResolvedScenario.model_validate(_fields_set(scenario) | {"curator": curator, "agents": agents})


S = TypeVar("S", ResolvedCurator, ResolvedAgents)


def filled(
    scenario: Scenario,
    *,
    n: int,
    kappa: float | None,
    eta: float,
    rounds: int,
    learner: dict[str, Any] | None,
    agents: int,
) -> ResolvedScenario:
    """Return a scenario with these numbers instead of its own; ``learner`` is in JSON form.

    They may be larger than a run admits: :func:`parse_resolved` refuses them.
    """
    settings = None if learner is None else parse_settings(learner)
    policy = {"n": n, "kappa": kappa, "eta": eta, "rounds": rounds, "learner": settings}
    return ResolvedScenario.model_validate(
        _fields_set(scenario)
        | {"curator": _resolved_section(ResolvedCurator, scenario.curator, policy)}
        | {"agents": _resolved_section(ResolvedAgents, scenario.agents, {"count": agents})}
    )


def _resolved_section(kind: type[S], section: CuratorSection | AgentsSection, numbers: dict[str, Any]) -> S:
    return kind.model_construct(section.model_fields_set | numbers.keys(), **(dict(section) | numbers))


def _fields_set(value: Scenario | CuratorSection | AgentsSection) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.model_fields_set}


def parse_resolved(tree: Any) -> ResolvedScenario:
    """Validate a resolved scenario from its JSON tree; errors are those of :func:`parse` and :func:`settled`."""
    return settled(parse(tree))
