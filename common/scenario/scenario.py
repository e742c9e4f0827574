"""Scenarios: what to run, as one YAML file with a closed set of keys.

A scenario is public. Numbers left at ``plan`` are filled in by :mod:`common.planning` for the scenario's ``bounds``;
:func:`common.planning.plan.resolve` returns a scenario without any ``plan`` left. Every party reads the same file and
takes only its own: the curator ``source`` and ``curator``, the agents ``target`` and ``agents``, the referee the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

import scenarios
from common.core import canonical, strictyaml
from common.core.errors import BadScenario, TandemError
from common.core.values import Value, explain
from common.numerics.randomness import subseed
from common.people.spec import PopulationSpec, PublicPopulationSpec, locate, open_public
from common.people.tables.schema import described
from common.privacy.rounding import down
from common.scenario.problems.base import AnyProblem
from common.vocabulary.losses import Loss
from common.vocabulary.mechanisms.base import AnyMechanism, BitMechanism, Mechanism
from common.vocabulary.records import Records
from common.vocabulary.tasks import Task

FromPlan = Literal["plan"]

MAX_ROUNDS = 10_000_000
"""Most rounds of a run: the privacy of each is planned before the first."""


class Moment(Value):
    """A public bound on a higher moment of the importance weights w = dT/dS: E_S[w^order] <= bound."""

    order: float = Field(gt=2, le=1000)
    bound: float = Field(ge=1)


class Divergence(Value):
    """What is publicly assumed about S and T.

    Attributes
    ----------
    chi_squared
        X = chi^2(T||S) + 1 >= 1: the second moment of the importance weights under S.
    supremum
        D_inf = sup dT/dS, if known.
    moments
        Higher moments, if known: the larger density that they show is planned with.
    """

    chi_squared: float = Field(ge=1)
    supremum: float | None = Field(default=None, ge=1)
    moments: tuple[Moment, ...] = Field(default=(), max_length=64)

    @property
    def known(self) -> tuple[float, float | None, dict[float, float]]:
        """X, D_inf and M_p by order p, as :func:`common.planning.formulas.density` takes them."""
        return self.chi_squared, self.supremum, {moment.order: moment.bound for moment in self.moments}


class Accuracy(Value):
    """How the target accuracy is split, in units of alpha.

    Attributes
    ----------
    learner
        The learner's loss on its reweighed distribution is at most ``learner * alpha``.
    halt_below
        The run halts only when the loss on T is shown to be below ``halt_below * alpha``. Theorem 4.3 has 4.
    reweigh_above
        It reweighs only when the loss on T is shown to be above ``reweigh_above * alpha``. Theorem 4.3 has 2.
    """

    learner: float = Field(default=1.0, gt=0)
    halt_below: float = Field(default=4.0, gt=0)
    reweigh_above: float = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.reweigh_above >= self.halt_below:
            raise ValueError(f"reweigh_above = {self.reweigh_above} must be below halt_below = {self.halt_below}")
        return self


class Storage(Value):
    """How the curator keeps its sample.

    Attributes
    ----------
    numbers
        ``single``: features as they are. ``fixed``: 16-bit integers on a public grid over the public bounds of the
        features, which takes half the memory.
    place
        ``memory``, or ``disk``: mapped from a file in the curator's state directory, for samples larger than memory.
    workers
        Ray workers that hold a shard of the sample each, inside the curator's trust domain; 0: this process holds all.
    """

    numbers: Literal["single", "fixed"] = "single"
    place: Literal["memory", "disk"] = "memory"
    workers: int = Field(default=0, ge=0, le=1024)


class CuratorSection(Value):
    """The curator's own policy: what it will do at most, for everybody to see.

    ``learner`` is a mapping with the name of a registered learner and its settings; the curator parses it. It is null
    where the protocol asks for other operations; each may then cost ``epsilon / rounds``. Without ``epsilon`` and
    ``delta`` nothing is private; ``kappa: null`` then leaves out the projection (Algorithm 1).
    """

    n: Annotated[int, Field(ge=1, lt=1 << 32)] | FromPlan = "plan"
    epsilon: float | None = Field(default=None, gt=0)
    delta: float | None = Field(default=None, ge=0, lt=1)
    kappa: Annotated[float, Field(gt=0, le=1)] | FromPlan | None = "plan"
    eta: Annotated[float, Field(gt=0)] | FromPlan = "plan"
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] | FromPlan = "plan"
    storage: Storage = Storage()
    learner: dict[str, Any] | None = None

    @property
    def share(self) -> float:
        """What one of ``rounds`` pure releases may cost: epsilon / rounds, rounded down.

        Raises
        ------
        BadScenario
            If there is no epsilon, or the rounds are still open.
        """
        if self.epsilon is None or self.rounds == "plan":
            raise BadScenario("curator.epsilon: this protocol needs a private curator, and its rounds resolved")
        return self.epsilon if self.rounds == 1 else down(self.epsilon / self.rounds)

    @property
    def settings(self) -> dict[str, Any]:
        """The learner's settings.

        Raises
        ------
        BadScenario
            If there is no learner.
        """
        if self.learner is None:
            raise BadScenario("curator.learner: give the name of a learner and its settings")
        return self.learner


class AgentsSection(Value):
    """The agents' side: how many, how they randomize, how the referee tests with their answers.

    Attributes
    ----------
    count
        Agents enrolled for the run.
    mechanism
        How each answer is randomized.
    loss
        The loss that agents test: ``zero-one``, which all accuracies here are about, or one of
        :data:`common.vocabulary.losses.Loss` that bounds nothing but itself.
    test
        ``sequential`` (e-process, stops as soon as the answer is clear) or ``fixed`` (the size known beforehand).
    batch
        First batch of a sequential test; later batches grow by half of what was already asked.
    dropout
        Simulated populations only: the share of agents that never answer.
    deadline
        Seconds to wait for a batch before going on with fresh agents.
    """

    count: Annotated[int, Field(ge=1, le=1 << 32)] | FromPlan = "plan"
    mechanism: AnyMechanism
    loss: Loss = "zero-one"
    test: Literal["sequential", "fixed"] = "sequential"
    batch: int = Field(default=1000, ge=1, le=10_000_000)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    deadline: float = Field(default=60.0, gt=0)

    @property
    def value_mechanism(self) -> Mechanism:
        """The mechanism, of protocols that ask for values in [0, 1].

        Raises
        ------
        BadScenario
            If it randomizes items.
        """
        if not isinstance(self.mechanism, Mechanism):
            raise BadScenario(
                f"agents.mechanism: {self.mechanism.name} randomizes items, this protocol asks for values in "
                f"[0, 1]: take warner"
            )
        return self.mechanism

    @property
    def bit_mechanism(self) -> BitMechanism:
        """The mechanism, of protocols whose agents answer with a bit.

        Raises
        ------
        BadScenario
            If its answers are something else.
        """
        if not isinstance(self.mechanism, BitMechanism):
            raise BadScenario(
                f"agents.mechanism: this protocol's agents answer with a bit, found {self.mechanism.name}: take warner"
            )
        return self.mechanism


class Scenario(Value):
    """One scenario. See the shipped ones (``referee list``) for examples.

    Attributes
    ----------
    protocol
        Name of a registered protocol.
    divergence
        Must be given but for problems: there S and T are the same.
    alpha, beta
        Accuracy (in 0/1 loss, 0 < alpha < 1/2) and failure probability: beta each for the sample, the learner's calls
        and the tests, 3 beta for the whole run (Theorem 4.3). Where the curator learns once: of the agents' estimate.
    bounds
        ``tight`` (the sound, tighter rules; default) or ``paper`` (as Kohen & Sheffet compute, for comparison).
    mode
        ``realizable``: halt when the loss on T is small; ``agnostic``: use every round, return the best hypothesis.
    people
        ``simulated``: randomness may come from the run's seed; ``real``: noise comes from a cryptographic generator.
        By default people of a table are real, all others simulated.
    experiment
        Real people only: their records are at hand to find out the truth and to run baselines, outside every guarantee
        (public data, say). Simulated people are always an experiment.
    data
        Directory of the table files, where the scenario reads tables.
    vc_dimension
        Pseudo-dimension of the loss class, for the sample-size bounds (or ``hypotheses``, the size of a finite class).
        With several tasks: of all their losses together.
    tasks
        Protocol ``hand-over`` only: what to learn about these people, one after the other.
    problem
        What to find out, for protocols about something else than a hypothesis with a small loss.
    public
        Records that everybody may see, beside those of the curator's people; learners that want them say so.
    alone
        With a problem: leave the other side out, to see that it is needed. The curator's people, or the agents, stand
        by and are never asked.
    """

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9-]+$")
    title: str
    description: str = ""
    protocol: str = "subsample-test-reweigh"
    alpha: float = Field(gt=0, lt=0.5)
    beta: float = Field(default=0.05, gt=0, lt=0.5)
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
    problem: AnyProblem | None = None
    alone: Literal["curator", "agents"] | None = None
    source: PopulationSpec
    target: PopulationSpec
    public: PublicPopulationSpec | None = None
    curator: CuratorSection
    agents: AgentsSection
    baselines: tuple[Literal["curator-only", "agents-only", "agents-once", "optimum"], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _tables_are_real(cls, tree: Any) -> Any:
        """Take people from a table for real ones unless the scenario says that they are not."""
        if isinstance(tree, dict) and "people" not in tree:
            sides = [tree.get(side) for side in ("source", "target")]
            if any(isinstance(side, dict) and side.get("table") is not None for side in sides):
                return {**tree, "people": "real"}
        return tree

    @model_validator(mode="after")
    def _problem_fits(self) -> Self:
        if self.problem is None:
            if self.alone is not None:
                raise ValueError("alone is for scenarios with a problem: leave it out")
            if "divergence" not in self.model_fields_set and self.protocol not in ONCE:
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
                raise ValueError(
                    f"problem {self.problem.name} is about {self.problem.dimension} features, the {side} people have "
                    f"{people.dimension}"
                )
        return self

    @model_validator(mode="after")
    def _tasks_fit(self) -> Self:
        if self.tasks and self.protocol != "hand-over":
            raise ValueError(f"tasks are for protocol hand-over, found {self.protocol!r}: leave them out")
        if self.tasks and self.baselines:
            raise ValueError("baselines are for one label and all features: leave them out where there are tasks")
        least = max((task.min_features for task in self.tasks), default=0)
        for side, people in (("source", self.source), ("target", self.target)):
            if people.dimension < least:
                raise ValueError(f"tasks need {least} features, the {side} people have {people.dimension}")
        return self

    @model_validator(mode="after")
    def _same_features(self) -> Self:
        if self.public is not None and self.public.dimension != self.source.dimension:
            raise ValueError(
                f"public people have {self.public.dimension} features, the curator's {self.source.dimension}: a model "
                f"of one would mean nothing to the other"
            )
        return self

    @model_validator(mode="after")
    def _real_tables(self) -> Self:
        if self.people == "real" and self.source.table is None:
            raise ValueError("people: real needs a source table")
        if self.people == "real" and self.baselines and not self.experiment:
            raise ValueError(
                "baselines look at real people's records beside the run, outside its guarantees: "
                "say experiment: true if they may, or leave baselines out"
            )
        if self.people == "real" and not self.agents.mechanism.for_real_people:
            raise ValueError(f"people: real cannot be asked with mechanism {self.agents.mechanism.name!r}")
        return self


ONCE = frozenset({"learn-and-test", "model-agnostic"})
"""Protocols in which the curator learns once, nothing is reweighed, and all agents test what was learned."""

_KINDS_OF_PEOPLE = {"distribution", "table"}
"""Keys of which people have one: a tree with one of them replaces another, whole."""


def shipped() -> list[str]:
    """Return the names of the shipped scenarios, sorted."""
    return scenarios.names()


def load(name_or_path: str, overrides: list[str] | None = None) -> Scenario:
    """Read a shipped scenario or a YAML file and apply ``KEY=VALUE`` overrides (dotted keys, YAML values).

    A file may describe the same experiment with real people below its key ``real``: once ``data`` is given, that tree
    is laid over the rest, key by key (lists and null replace what was there), before the overrides. Its own ``data`` is
    the name of a folder that is looked for in the directory given.

    Raises
    ------
    BadScenario
        Naming the first unknown key or wrong value.
    """
    if name_or_path in shipped():
        text = scenarios.text(name_or_path)
    else:
        path = Path(name_or_path)
        if path.suffix not in (".yaml", ".yml"):
            raise BadScenario(f"no shipped scenario is called {name_or_path!r}; there are: {', '.join(shipped())}")
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadScenario(f"cannot read {name_or_path}: {error}") from error
    try:
        tree = strictyaml.load(text)
    except yaml.YAMLError as error:
        raise BadScenario(f"{name_or_path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise BadScenario(f"{name_or_path} must be a mapping of keys, found {type(tree).__name__}")
    changes: dict[str, Any] = {}
    for override in overrides or []:
        _override(changes, override)
    real = tree.pop("real", None)
    if real is not None and not isinstance(real, dict):
        raise BadScenario(f"real must be a mapping of keys, found {type(real).__name__}")
    shelf = changes.get("data", tree.get("data"))
    if real is not None and shelf is not None:
        tree = _laid_over(tree, real)
    for override in overrides or []:
        _override(tree, override)
    if real is not None and isinstance(shelf, str) and (Path(shelf) / str(real.get("data", ""))).is_dir():
        tree["data"] = str(Path(shelf) / str(real.get("data", "")))
    return parse(_described(tree, name_or_path))


def _laid_over(tree: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    both = {key: value for key, value in tree.items() if key not in upper}
    for key, value in upper.items():
        lower = tree.get(key)
        if isinstance(value, dict) and isinstance(lower, dict) and not _KINDS_OF_PEOPLE & value.keys():
            both[key] = _laid_over(lower, value)
        else:
            both[key] = value
    return both


def _described(tree: dict[str, Any], name_or_path: str) -> dict[str, Any]:
    """Write out what tables name as their ``schema``: a file beside the scenario, or in its directory of data."""
    sections = {side: tree.get(side) for side in ("source", "target", "public")}
    tables = {
        side: section["table"] for side, section in sections.items() if isinstance(section, dict) and "table" in section
    }
    if not any(isinstance(table, dict) and "schema" in table for table in tables.values()):
        return tree
    folders = [Path(name_or_path).parent, *([locate(str(tree["data"]))] if tree.get("data") else [])]
    return tree | {side: tree[side] | {"table": described(table, folders)} for side, table in tables.items()}


def data_folder(scenario: Scenario) -> Path | None:
    """Return the directory of the scenario's table files, as :func:`common.people.spec.locate` finds it."""
    return None if scenario.data is None else locate(scenario.data)


def public_sample(scenario: Scenario, seed: int) -> Records | None:
    """Return the scenario's public sample for the run's seed, None if it has none; every party gets the same.

    Raises
    ------
    BadScenario, BadData
        If it cannot be read.
    """
    if scenario.public is None:
        return None
    return open_public(scenario.public, data_folder(scenario), subseed(seed, "public"))


def parse(tree: Any) -> Scenario:
    """Validate a scenario from its YAML/JSON tree.

    Raises
    ------
    BadScenario
        Naming the first unknown key or wrong value.
    """
    try:
        return Scenario.model_validate(tree)
    except ValidationError as error:
        raise BadScenario(explain(error)) from None
    except BadScenario:
        raise
    except TandemError as error:
        raise BadScenario(error.detail) from None


def altered(scenario: Scenario, overrides: Sequence[str]) -> Scenario:
    """Return a scenario with ``KEY=VALUE`` overrides applied, as :func:`load` applies them.

    Raises
    ------
    BadScenario
        Naming the first unknown key or wrong value.
    """
    tree = scenario.wire()
    for override in overrides:
        _override(tree, override)
    return parse(tree)


def policy_digest(scenario: Scenario | dict[str, Any]) -> str:
    """Return the SHA-256 of what a curator agrees to: where its people and the public ones come from, its section."""
    parsed = scenario if isinstance(scenario, Scenario) else parse(scenario)
    wire = parsed.wire()
    return canonical.digest({part: wire[part] for part in ("people", "source", "public", "curator")})


def _override(tree: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise BadScenario(f"--set wants KEY=VALUE, found {override!r}")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadScenario(f"--set {key}: {text!r} is not a YAML value") from None
    *parents, last = key.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
        if not isinstance(tree, dict):
            raise BadScenario(f"--set {key}: {parent} holds a value, not a mapping")
    if isinstance(value, str):
        value = _number(value)
    tree[last] = value


def _number(text: str) -> Any:
    """Read what YAML 1.1 leaves a string but people mean as a number (1e-4)."""
    try:
        return float(text)
    except ValueError:
        return text
