"""The common base of all estimators: reading people, charging and running a fit, and its privacy guarantee."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from common.core.arrays import AnyArray, Floats, Singles
from common.core.errors import BadFit
from common.core.machine import works_after_fork
from common.data.columns import canonical_texts
from common.data.loading import encode, is_file, is_frame
from common.data.tables import TableSource
from common.lifetime.charging import GivenPeople, Side
from common.local.hypotheses.hypothesis import Hypothesis, parse_hypothesis
from common.models.explain import Sum, linear_terms
from common.models.model import Model, released
from common.net.messages import Spent
from common.numerics.randomness import RandomSource
from common.scenario.fitting import usual_delta
from common.scenario.scenario import parse
from common.statistics.intervals import Estimate
from referee.protocols.base import JudgedCandidate
from referee.runfolder import write_run
from referee.runs.verdict import Verdict, verdict
from referee.service.referee import public
from referee.view.wording import OVER_ALL_RUNS
from tandem.estimators import frames
from tandem.estimators.fitting import (
    PUBLIC,
    SOURCE,
    TARGET,
    as_bad_fit,
    resolved_scenario,
    run,
    warn_of_clipping,
    warn_of_constants,
)
from tandem.estimators.guarantee import Guarantee, Spending

_NUMBERS = {"rounds", "kappa", "eta", "alpha", "beta", "norm", "population_fraction"}
"""Options that are numbers, or None."""

FitPeople = tuple[polars.DataFrame, AnyArray]
"""People as given: a row of features each, and their classes or responses, shape (n,)."""


@dataclass(frozen=True, repr=False, eq=False)
class Sides:
    """The people who give the curator a record and those who answer as agents; and whether chance decided that.

    ``frames`` are the same people in the form in which ``fit`` got them; empty for a simulation, which charges no one.
    """

    curator: polars.DataFrame
    population: polars.DataFrame
    drawn: bool
    frames: Mapping[Side, GivenPeople]


class HybridEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """The base of all estimators; not one itself."""

    _numeric: ClassVar[bool] = False  # whether the response is a number
    _shortens: ClassVar[bool] = True
    """Whether a norm shortens all features, in learning, testing and predicting."""
    _known_options: ClassVar[Mapping[str, Any]]  # the keys that ``options`` may have, with their default values

    _range: tuple[float, float]  # public bounds of the response, if it is a number
    _output: Literal["default", "pandas", "polars"] = "default"
    hypothesis_: Hypothesis
    guarantee_: Guarantee
    estimate_: Estimate | None
    verdict_: Verdict

    def __init__(
        self,
        epsilon: float,
        delta: float | None,
        agent_epsilon: float,
        bounds: Any,
        schema: Any,
        random_state: Any,
        lifetime: tuple[float, float] | None,
        options: Mapping[str, Any] | None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.agent_epsilon = agent_epsilon
        self.bounds = bounds
        self.schema = schema
        self.random_state = random_state
        self.lifetime = lifetime
        self.options = options

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Return predictions as series and tables of pandas, with the index of their rows, or of polars, from now on.

        "default": as arrays; None changes nothing. BadFit for anything else.
        """
        if transform not in (None, "default", "pandas", "polars"):
            raise BadFit(f"transform must be 'default', 'pandas', 'polars' or None, found {transform!r}")
        self._output = transform or self._output
        return self

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        return clone.set_output(transform=self._output)

    def _read_people(self, X: Any, y: Any, *, reset: bool) -> FitPeople:
        """Read people and their classes or responses: y is an array, or the name of a column of X."""
        id_column = self._value("id_column")
        with as_bad_fit():
            if id_column is not None and not is_file(X) and id_column not in getattr(X, "columns", ()):
                raise BadFit(f"there is no column {id_column!r} in the data, which is named as the id of its people")
            if self.schema is not None:
                return self._by_schema(X, y, reset)
            X = self._without_id(X)
            if is_file(X):
                raise BadFit("records in a file need schema=, which says what its columns are; found none")
            if isinstance(y, str) and is_frame(X):
                X, y = _pop_column(X, y)
            matrix, target = self._validated(X, reset, y=frames.target_array(y), y_numeric=self._numeric)
            return self._to_frame(matrix, reset), target

    def _features(self, X: Any) -> polars.DataFrame:
        with as_bad_fit():
            if self.schema is not None:
                return _texts(frames.chosen_columns(X, self._schema.columns, self._schema.layout))
            return self._to_frame(self._validated(self._without_id(X), False), False)

    def _without_id(self, X: Any) -> Any:
        id_column = self._value("id_column")
        named = id_column is not None and is_frame(X) and id_column in X.columns
        return _pop_column(X, id_column)[0] if named else X

    def _validated(self, X: Any, reset: bool, **target: Any) -> Any:
        return validate_data(
            self, frames.doubles(X), reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", **target
        )

    def _to_frame(self, matrix: AnyArray, reset: bool) -> polars.DataFrame:
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{index}" for index in range(matrix.shape[1])] if names is None else [str(name) for name in names]
        if reset:
            norm = self._value("norm") if self._shortens else None
            self._schema = frames.numeric_schema(self._public_bounds(columns), columns, norm)
        return polars.DataFrame(dict(zip(columns, np.ascontiguousarray(matrix.T), strict=True)))

    def _public_bounds(self, columns: list[str]) -> Any:
        return self.bounds

    def _by_schema(self, X: Any, y: Any, reset: bool) -> FitPeople:
        if reset:
            self._schema = frames.public_schema(self.schema)
            if self._schema.norm is not None and not self._shortens:
                raise BadFit(
                    "the schema has a norm, which would shorten what is to be predicted, too: give "
                    "settings={'norm': ...} instead"
                )
            self.n_features_in_ = len(self._schema.columns)
            self.feature_names_in_ = np.asarray(self._schema.columns, dtype=object)
        columns, label = self._schema.columns, self._schema.label
        if y is None and label is not None:
            y = label.column
        if y is None:
            raise BadFit("y is None, and the schema names no label: give the labels, or the name of their column")
        named = isinstance(y, str)
        names = (*columns, y) if named and y not in columns else columns
        table = frames.chosen_columns(X, names, self._schema.layout)
        frame = _texts({name: table[name] for name in columns})
        target = np.asarray(table[y]) if named else column_or_1d(frames.target_array(y))
        if len(target) != len(frame):
            raise BadFit(f"X has {len(frame)} people and y {len(target)} values: give one for each person")
        return frame, target

    @abstractmethod
    def _people(self, X: Any, y: Any) -> polars.DataFrame:
        """Read the curator's people, and fix how classes or responses are encoded; return them as parties read them."""

    @abstractmethod
    def _with_targets(self, people: FitPeople) -> polars.DataFrame:
        """Return people, with their classes or responses, as the parties read them."""

    def _read_sample(self, sample: Any, y: Any, name: str) -> polars.DataFrame:
        return self._with_targets(self._read_people(*frames.labelled(sample, y, name), reset=False))

    @abstractmethod
    def _table_source(self, file: str) -> TableSource:
        """Return the description of a file of people with their classes or responses."""

    def _value(self, name: str) -> Any:
        """Return a parameter, or an option; BadFit for unknown options."""
        if name not in self._known_options:
            return getattr(self, name)
        options = frames.mapping(self.options, "options")
        if unknown := sorted(options.keys() - self._known_options.keys()):
            what = f"unknown key{'s' if len(unknown) > 1 else ''}; known: {', '.join(sorted(self._known_options))}"
            raise BadFit(f"options: {', '.join(unknown)}: {what}")
        return {**self._known_options, **options}[name]

    def _number(self, name: str) -> float:
        """Return a parameter or option that must be a number; its range is checked with the scenario."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            raise BadFit(f"{name} must be a finite number, found {value!r}")
        return float(value)

    def _delta(self, people: int) -> float:
        return usual_delta(people) if self.delta is None else self._number("delta")

    def _checked_seed(self, further: Mapping[str, Any]) -> int | None:
        """Return the seed of a fit, after checking all numeric parameters; one message names all that are no numbers.

        Further arguments of ``fit`` are refused; for weights of people the message has the reason.
        """
        if "sample_weight" in further:
            raise BadFit(
                "fit takes no sample_weight: noise is calibrated to people who all weigh the same, and no agent can "
                "weigh more; protocol='subsample-test-reweigh' moves the sample towards the population privately"
            )
        if further:
            raise TypeError(f"fit() got unexpected keyword arguments: {', '.join(sorted(further))}")
        wrong = []
        for name in ("epsilon", "delta", "agent_epsilon", *sorted(_NUMBERS & self._known_options.keys())):
            if self._value(name) is not None or name in ("epsilon", "agent_epsilon"):
                try:
                    self._number(name)
                except BadFit as error:
                    wrong.append(error.detail)
        if wrong:
            raise BadFit("; ".join(wrong))
        return None if self.random_state is None else int(check_random_state(self.random_state).randint(1 << 31))

    def _lifetime(self) -> dict[str, float] | None:
        if self.lifetime is None:
            return None
        try:
            epsilon, delta = self.lifetime
            return {"epsilon": float(epsilon), "delta": float(delta)}
        except (TypeError, ValueError):
            raise BadFit(f"lifetime must be (epsilon, delta) or None, found {self.lifetime!r}") from None

    def _tree(self, sides: Sides, curator: Mapping[str, Any], **further: Any) -> dict[str, Any]:
        return {
            "people": "real" if self.random_state is None else "simulated",
            "source": {"table": self._table_source(SOURCE).wire()},
            "target": {"table": self._table_source(TARGET).wire()},
            "curator": {
                "n": len(sides.curator),
                "epsilon": self._number("epsilon"),
                "delta": self._delta(len(sides.curator)),
                "lifetime": self._lifetime(),
                **curator,
            },
            "agents": {
                "count": len(sides.population),
                "mechanism": {"name": "warner", "epsilon": self._number("agent_epsilon")},
            },
            **further,
        }

    def _sides(self, people: polars.DataFrame, seed: int | None, X: Any, y: Any, population: Any) -> Sides:
        """Return the curator's people and the agents; without a population, split X at random, whatever the records.

        ``people`` are those of X; X, y and population are as given to ``fit``.
        """
        agents_frame = None if population is None else self._read_sample(population, y, "population")
        sides: dict[Side, GivenPeople] = {}
        if seed is None:
            sides["source"] = self._given_people(X, y)
        if agents_frame is not None:
            if seed is None:
                sides["target"] = self._given_people(
                    *(population if isinstance(population, tuple) else (population, y))
                )
            return Sides(people, agents_frame, False, sides)
        fraction = self._number("population_fraction")
        if not 0.0 < fraction < 1.0:
            raise BadFit(f"population_fraction must be in (0, 1), found {fraction:g}")
        first = round(fraction * len(people))
        if not 0 < first < len(people):
            raise BadFit(
                f"n_samples={len(people)} is too few to share out: population_fraction = {fraction:g} leaves {first} "
                f"to be asked and {len(people) - first} to the curator"
            )
        source = RandomSource.secure() if seed is None else RandomSource.seeded(seed, "parts")
        order = np.random.default_rng(source.words(4)).permutation(len(people))
        curator, agents = np.sort(order[first:]), np.sort(order[:first])
        if seed is None:  # neither side has the whole file, so people are identified by its rows
            all_people = replace(sides["source"], files=(), apart=True)
            sides = {
                "source": replace(all_people, frame=all_people.frame[curator]),
                "target": replace(all_people, frame=all_people.frame[agents]),
            }
        return Sides(people[curator], people[agents], True, sides)

    def _given_people(self, X: Any, y: Any) -> GivenPeople:
        label = y if isinstance(y, str) else None
        if y is None and self._schema.label is not None:
            label = self._schema.label.column
        id_column: str | None = self._value("id_column")
        with as_bad_fit():
            if id_column is None and self.schema is not None:
                id_column = frames.public_schema(self.schema).id
            return frames.given_people(X, label, id_column, self._schema.layout)

    def _carry_out(
        self, tree: Mapping[str, Any], sides: Sides, seed: int | None, public_frame: polars.DataFrame | None = None
    ) -> None:
        resolved = resolved_scenario(tree, self.n_features_in_)
        tables = {SOURCE: sides.curator, TARGET: sides.population}
        if public_frame is None:  # else a PublicClippingWarning covers the public sample, which costs no privacy
            named_sides = {"curator": sides.curator, "population": sides.population}
            warn_of_clipping(named_sides, self._schema, self._range if self._numeric else None)
            warn_of_constants(named_sides, self._schema)
        else:
            tables[PUBLIC] = public_frame
        previous = getattr(self, "guarantee_", None)
        protects = resolved.curator.guarantee.protects
        features = ("every feature of the curator's people",) if protects == "labels" else ()
        assumptions = (*(previous.assumptions if previous else ()), *self._assumptions(), *features)
        spending = Spending(
            epsilon=self._number("epsilon"),
            delta=self._delta(len(sides.curator)),
            agent_epsilon=self._number("agent_epsilon"),
            protects=protects,
            people=len(sides.curator),
            agents=len(sides.population),
            drawn=sides.drawn,
        )
        self.guarantee_ = Guarantee(
            fits=(*(previous.fits if previous else ()), spending),
            simulated=seed is not None or (previous is not None and previous.simulated),
            assumptions=tuple(dict.fromkeys(assumptions)),
        )
        try:
            output = run(resolved, tables, seed, sides.frames)
        except BadFit:  # before any operation: nothing was spent
            del self.guarantee_
            if previous is not None:
                self.guarantee_ = previous
            raise
        result = {**output.result, "all_runs": output.all_runs}
        if output.all_runs is not None:
            spent = {OVER_ALL_RUNS[who]: Spent.parse(total) for who, total in output.all_runs.items()}
            self.guarantee_ = self.guarantee_.model_copy(update={"all_runs": spent})
        self.hypothesis_ = parse_hypothesis(result["answer"])
        self.estimate_ = None if result["estimate"] is None else Estimate.parse(result["estimate"])
        self.result_ = result
        self._scenario, self._finished = public(resolved), output
        self._set_released()
        labels = [str(label) for label in getattr(self, "classes_", ())]  # the classes of this fit
        self.verdict_ = verdict(resolved, result, (labels[0], labels[1]) if len(labels) == 2 else None)

    def _set_released(self) -> None: ...

    def _in_units(self, estimate: Estimate) -> Estimate:
        return estimate

    def _judged_candidates(self) -> tuple[JudgedCandidate, ...]:
        return tuple(
            JudgedCandidate(
                name=candidate["name"],
                hypothesis=parse_hypothesis(candidate["hypothesis"]),
                estimate=self._in_units(Estimate.parse(candidate["estimate"])),
                asked=candidate["asked"],
            )
            for candidate in self.result_.get("candidates", ())
        )

    def _assumptions(self) -> tuple[str, ...]:
        return ("the numbers of people, and every parameter of the estimator",)

    def save_run(self, folder: str | Path) -> Path:
        """Write the run folder of the last fit, without any private record; ``referee audit FOLDER`` verifies it."""
        check_is_fitted(self, "hypothesis_")
        output = self._finished
        parts = output.transcript, output.participants, output.reports, output.checkpoints, output.vouchers
        write_run(Path(folder), self._scenario, self.result_, *parts)
        return Path(folder)

    def to_model(self) -> Model:
        """Return the model of the last fit, with the names and units of the columns, for :func:`tandem.export`."""
        check_is_fitted(self, "hypothesis_")
        return released(parse(self._scenario), self.result_)

    @property
    def coef_(self) -> Floats:
        """The weights of a half-space or a regression, shape (1, d): in each column's own unit, within its bounds.

        A category has one weight for each of its values, in the order of ``to_model().table.features``. The weights do
        not apply to rows that a norm shortens. AttributeError if the released hypothesis is of another kind.
        """
        return np.array([[term.effect for term in self._linear().terms]])

    @property
    def intercept_(self) -> Floats:
        """The intercept for these weights, shape (1,)."""
        return np.array([self._linear().intercept])

    def _linear(self) -> Sum:
        linear = linear_terms(self.to_model()) if hasattr(self, "hypothesis_") else None
        if linear is None:
            raise AttributeError("there are no weights: nothing is fitted, or the released hypothesis is no half-space")
        return linear

    @works_after_fork
    def _encoded(self, X: Any) -> Singles:
        check_is_fitted(self, "hypothesis_")
        frame = self._features(X)
        with as_bad_fit():
            return encode(frame, frames.table_source(self._schema, "people.parquet"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "hypothesis_")


def _texts(columns: Mapping[str, Any]) -> polars.DataFrame:
    return polars.DataFrame({name: canonical_texts(column, name) for name, column in columns.items()})


def _pop_column(X: Any, name: str) -> tuple[Any, Any]:
    if name not in X.columns:
        raise BadFit(f"y names the column {name!r}, which X does not have")
    frames.check_once(X, [name])
    rest = X.drop(name) if isinstance(X, polars.DataFrame) else X.drop(columns=name)
    return rest, X[name]
