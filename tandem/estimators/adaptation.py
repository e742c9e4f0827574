"""Private domain adaptation: a few private people and a public sample of another domain; CnvxAdap and NCnvxAdap."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars
from sklearn.base import RegressorMixin

from common.core.arrays import Floats
from common.core.errors import BadFit, BadInput
from common.core.machine import works_after_fork
from common.data.tables import Number, TableSource
from common.learners.adaptation import MAX_SCORES
from tandem.estimators.base import FitPeople, HybridEstimator, Sides
from tandem.estimators.classes import BinaryClassifier
from tandem.estimators.fitting import PUBLIC, SOURCE, TARGET
from tandem.estimators.frames import (
    LABEL,
    RESPONSE,
    PublicClippingWarning,
    bounded,
    clipped_shares,
    described,
    labelled,
    numbers,
    public_pairs,
    response_cost,
    warning_text,
    widened,
)

CHOICE = {"law": {"name": "negative-binomial", "eta": 1.0, "gamma": 0.25, "most": 16}, "validation": 0.2}
"""How a grid is searched where nothing else is said: four runs on the average, sixteen carried out."""

MAX_RADIUS = 64.0
"""Lambda of half-spaces if none is given: logistic regressions without privacy are no longer on any set of
docs/adaptation-tables.md, so that the adapters search what those search.
"""


class Adapter(HybridEstimator):
    """What both adapters share; not an estimator itself."""

    _shortens = False
    _learner: ClassVar[str]
    _loss: ClassVar[str]
    _further: ClassVar[Mapping[str, Any]] = {}
    """Further settings, where they are not given."""
    _output: ClassVar[str]
    """Which iterate is released, where the settings do not say: all cost the same, and this one is best in practice."""

    alpha: float
    private: str
    radius: float | None
    iterations: int
    settings: Mapping[str, Any] | None
    grid: Mapping[str, Any] | None
    choice: Mapping[str, Any] | None

    public_clipped_: dict[str, float]
    """Share of the public sample's values that are beyond their bounds, by column, where there are any."""

    def _adapt(self, X: Any, y: Any, public: Any, population: Any) -> None:
        """Read everybody, run, and keep what was released."""
        if public is None:
            raise BadFit(f"{type(self).__name__} adapts from a public sample of another domain: give public=(X, y)")
        if population is None and self.private == "source":
            raise BadFit("private: source has no people of the target to test on: give population=(X, y)")
        seed = self._seed()
        self._open = labelled(public, y, "public")[0]
        people = self._people(X, y)
        del self._open
        others = self._others(public, y, "public")
        self._settle(others)
        self._warn(others)
        asked = None if population is None else self._others(population, y, "population")
        sides = self._sides(people, asked, seed, X, y, population)
        self._carry_out(self._tree(sides), sides, seed, others)

    def _public_bounds(self, columns: list[str]) -> Any:
        if not self._by_public:
            return self.bounds
        return public_pairs(self._open, columns)

    @property
    def _by_public(self) -> bool:
        return isinstance(self.bounds, str) and self.bounds == "public"

    def _settle(self, others: polars.DataFrame) -> None:
        """Settle what else the public sample decides."""

    def _response_cost(self, others: polars.DataFrame) -> float:
        return 0.0

    def _warn(self, others: polars.DataFrame) -> None:
        self.public_clipped_ = clipped_shares(others, self._described(PUBLIC))
        text = warning_text(self.public_clipped_, self._response_cost(others))
        if text:
            warnings.warn(text, PublicClippingWarning, stacklevel=4)

    def _tree(self, sides: Sides) -> dict[str, Any]:
        """Return the scenario of a fit: the curator learns once, every agent tests once."""
        epsilon, delta = self._number("epsilon"), self._number("delta")
        return {
            "name": "domain-adapter",
            "title": "A model adapted from a public sample to a private one, tested on the population",
            "protocol": "learn-and-test",
            "alpha": 0.1,
            "people": "real" if self.random_state is None else "simulated",
            "source": {"table": self._described(SOURCE).wire()},
            "target": {"table": self._described(TARGET).wire()},
            "public": {"table": self._described(PUBLIC).wire()},
            "curator": {
                "n": len(sides.curator),
                "epsilon": epsilon,
                "delta": delta,
                "kappa": None,
                "lifetime": self._lifetime(),
                "learner": self._learning(),
            },
            "agents": {
                "count": len(sides.population),
                "mechanism": {"name": "warner", "epsilon": self._number("agent_epsilon")},
                "loss": self._loss,
            },
        }

    def _columns(self) -> dict[str, int]:
        return {"features": self._schema.dimension}

    def _learning(self) -> dict[str, Any]:
        """Return the learner's settings: of one run, or of a private choice among several."""
        norm = self._norm()
        one = {
            "name": self._learner,
            **self._columns(),
            "alpha": self._number("alpha"),
            "private": self.private,
            "radius": self._radius(norm),
            "norm": norm,
            "iterations": self._whole("iterations"),
            "output": self._output,
            "start": "public",
            "whitening": "public" if self._by_public else "none",
            **self._further,
            **(self.settings or {}),
        }
        if self.grid is None:
            return {"mu": "plan", **one}
        judges = "public" if self.private == "source" else "held-out"
        grid = {name: list(values) for name, values in self.grid.items()}
        several = {"name": "chosen", "learner": one, "grid": grid, "loss": self._loss, "judges": judges}
        return {"mu": "plan", **several, **CHOICE, **(self.choice or {})}

    def _norm(self) -> float:
        if self.norm is not None:
            return self._number("norm")
        return 1.0 if self._by_public else 0.5 * math.sqrt(self._schema.dimension)

    def _radius(self, norm: float) -> float:
        if self.radius is not None:
            return self._number("radius")
        return min(MAX_RADIUS, MAX_SCORES / math.hypot(norm, 1.0))

    def _assumptions(self) -> tuple[str, ...]:
        return (*super()._assumptions(), "every record of the public sample")


class DomainAdapter(BinaryClassifier, Adapter):
    """A classifier for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs NCnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 2) in the embedded deployment: the people of X
    are the curator's, and the private target; ``public`` is the source, open to everybody. It learns a half-space and
    at once how much each record of both samples should weigh, with noise for the private ones. What comes out is tested
    by the people of ``population``, each by one randomized answer.

    Args:
        epsilon, delta: Of each person of X: (epsilon, delta)-differential privacy of everything the curator releases;
            neighbours replace one record, the numbers of people are public. Each fit spends this anew.
        agent_epsilon: Of each person of the population: epsilon-local differential privacy of their answer.
        alpha: In (0, 1): what the source weighs beside the target, before weights are learned.
        private: ``"target"``: X is the target. ``"source"``: X is the source, ``public`` the target (the paper's
            Section 7); then a population of the target must be given.
        radius: Lambda: the greatest length of the weights, of features scaled as ``bounds`` says and a constant. None:
            64, or 512 over ``norm`` if that is less; logistic regressions of ordinary data are shorter.
        iterations: T.
        bounds: ``"public"``: the least and the greatest value of each column in the public sample, and features
            whitened by its moments while learning (``docs/adaptation.md``); nothing is taken from anybody private.
            Otherwise as of :class:`~tandem.estimators.transfer.TransferClassifier`, of both domains, and features
            scaled to [-1/2, 1/2]. Values beyond are clipped; where values of the *public* sample are, a
            ``PublicClippingWarning`` says so.
        schema: As of :class:`~tandem.estimators.transfer.TransferClassifier`, of both domains: then it has the bounds,
            and ``bounds="public"`` asks for whitening alone.
        norm: Public bound: longer vectors of the scaled features are shortened to it while learning. None: 1 where they
            are whitened, within which three quarters of the public sample are; else half the square root of their
            number, which no vector exceeds.
        settings: Further settings of the learner (``kappa_1``, ``discrepancy_share``, ``output``, ...:
            ``docs/adaptation.md``). If not given, ``start`` is ``public``: learning begins at the fit of the public
            sample, and noise alone raises the loss there by a quarter at most. ``output`` is ``average``: all iterates
            cost the same, and it varies less than a random one.
        grid: Public values to try, by the learner's setting (``alpha``, ``kappa_1``, ``radius``, ...): the best of
            several runs on part of X, by a private score on the rest, all within epsilon and delta
            (``docs/hyperparameters.md``). Which setting was best is not told. None: one run with the settings given.
        choice: Of the search: ``law`` of the number of runs, share for ``validation``, ``cut`` of losses.
        classes, population_fraction, random_state: As of :class:`~tandem.estimators.transfer.TransferClassifier`.
        lifetime: (epsilon, delta) that all fits and runs may cost a real person together, whichever side they are on;
            None: they take part once.
        id_column: The column of X and of the population, given as frames or files, that says who is who: by it people
            are recognised in further fits, instead of by their rows. Nothing else is done with it. None: that of the
            schema.

    Attributes:
        public_clipped_: Share of the public sample's values beyond their bounds, by column; columns without any are
            left out.
        classes_, hypothesis_, estimate_, guarantee_, result_, n_features_in_, feature_names_in_: As of
            :class:`~tandem.estimators.transfer.TransferClassifier`.

    Raises:
        BadFit: From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
        FitFailed: From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.
    """

    _learner = "ncnvx-adap"
    _loss = "zero-one"
    _output = "average"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        agent_epsilon: float = 1.0,
        alpha: float = 0.5,
        private: Literal["target", "source"] = "target",
        radius: float | None = None,
        iterations: int = 500,
        bounds: Any = "public",
        schema: Any = None,
        norm: float | None = None,
        classes: Any = None,
        settings: Mapping[str, Any] | None = None,
        grid: Mapping[str, Any] | None = None,
        choice: Mapping[str, Any] | None = None,
        population_fraction: float = 0.3,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        id_column: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.agent_epsilon = agent_epsilon
        self.alpha = alpha
        self.private = private
        self.radius = radius
        self.iterations = iterations
        self.bounds = bounds
        self.schema = schema
        self.norm = norm
        self.classes = classes
        self.settings = settings
        self.grid = grid
        self.choice = choice
        self.population_fraction = population_fraction
        self.random_state = random_state
        self.lifetime = lifetime
        self.id_column = id_column

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, public: Any = None, population: Any = None) -> Self:
        """Adapt to the curator's people, helped by the public ones, tested by the population's.

        Args:
            X, y: The curator's people and their classes, as :meth:`TransferClassifier.fit` takes them.
            public: The public sample of the other domain, (X, y) in any of these forms; a frame or path alone if y
                names a column, or the schema a label. Required.
            population: The agents' people of the target, in the same forms. None: see ``population_fraction``.

        Returns:
            self
        """
        self._adapt(X, y, public, population)
        self.classes_ = self._classes.names
        return self


class DomainAdapterRegressor(RegressorMixin, Adapter):  # type: ignore[misc]  # scikit-learn has no types
    """A linear regression for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs CnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 1) in the embedded deployment, as
    :class:`~tandem.estimators.adaptation.DomainAdapter` runs NCnvxAdap. Agents answer with their squared error,
    in [0, 1] by the public bounds of the response, rounded to a bit by chance and randomized.

    Args:
        epsilon, delta, agent_epsilon, alpha, private, radius, iterations, bounds, schema, norm, settings, grid, choice:
            As of :class:`~tandem.estimators.adaptation.DomainAdapter`. If not given, ``output`` is ``suffix``, and
            ``residual_clip`` is ``public``: noise is calibrated to residuals as the public sample's fit has them.
        response_bounds: *Public* bounds (low, high) of what is predicted, or ``"public"``: the least and the greatest
            response of the public sample. Responses beyond are clipped to them, in learning and in the agents' answers,
            so that ``estimate_`` is the error for clipped responses.
        population_fraction, random_state: As of :class:`~tandem.estimators.transfer.TransferClassifier`.
        lifetime: (epsilon, delta) that all fits and runs may cost a real person together, whichever side they are on;
            None: they take part once.
        id_column: The column of X and of the population, given as frames or files, that says who is who: by it people
            are recognised in further fits, instead of by their rows. Nothing else is done with it. None: that of the
            schema.

    Attributes:
        estimate_: The mean squared error on the population, in the square of the response's units, with an interval; of
            responses clipped to ``response_bounds``.
        public_clipped_: As of :class:`~tandem.estimators.adaptation.DomainAdapter`; the response's share is under
            ``"response"``.
        hypothesis_, guarantee_, result_, n_features_in_, feature_names_in_: As of
            :class:`~tandem.estimators.transfer.TransferClassifier`.

    Raises:
        BadFit: From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
        FitFailed: From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.
    """

    _learner = "cnvx-adap"
    _loss = "squared"
    _output = "suffix"
    _further: ClassVar[Mapping[str, Any]] = {"residual_clip": "public"}
    _numeric = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        agent_epsilon: float = 1.0,
        alpha: float = 0.5,
        private: Literal["target", "source"] = "target",
        radius: float = 1.0,
        iterations: int = 500,
        bounds: Any = "public",
        response_bounds: Any = "public",
        schema: Any = None,
        norm: float | None = None,
        settings: Mapping[str, Any] | None = None,
        grid: Mapping[str, Any] | None = None,
        choice: Mapping[str, Any] | None = None,
        population_fraction: float = 0.3,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        id_column: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.agent_epsilon = agent_epsilon
        self.alpha = alpha
        self.private = private
        self.radius = radius
        self.iterations = iterations
        self.bounds = bounds
        self.response_bounds = response_bounds
        self.schema = schema
        self.norm = norm
        self.settings = settings
        self.grid = grid
        self.choice = choice
        self.population_fraction = population_fraction
        self.random_state = random_state
        self.lifetime = lifetime
        self.id_column = id_column

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, public: Any = None, population: Any = None) -> Self:
        """Adapt to the curator's people, helped by the public ones, tested by the population's.

        Args:
            X: The curator's people: an array of shape (n, d), a pandas or polars frame, or with a schema the path of a
                CSV or Parquet file.
            y: Their responses, shape (n,), or the name of the column of X that has them.
            public: The public sample of the other domain, (X, y) in any of these forms; a frame or path alone if y
                names a column. Required.
            population: The agents' people of the target, in the same forms. None: see ``population_fraction``.

        Returns:
            self
        """
        self._adapt(X, y, public, population)
        if self.estimate_ is not None:
            unit = (self._range[1] - self._range[0]) ** 2
            scaled = {name: unit * getattr(self.estimate_, name) for name in ("value", "low", "high")}
            self.estimate_ = self.estimate_.model_copy(update=scaled)
        return self

    def predict(self, X: Any) -> Floats:
        """Return the response predicted for each of n people, shape (n,), within ``response_bounds``."""
        features = self._encoded(X)
        low, high = self._range
        return low + (high - low) * self.hypothesis_.values(features)

    def _people(self, X: Any, y: Any) -> polars.DataFrame:
        return _marked(self._given(X, y, reset=True))

    def _others(self, others: Any, y: Any, name: str) -> polars.DataFrame:
        return _marked(self._given(*labelled(others, y, name), reset=False))

    def _settle(self, others: polars.DataFrame) -> None:
        if isinstance(self.response_bounds, str) and self.response_bounds == "public":
            self._range = widened(others[RESPONSE].to_numpy())
        else:
            self._range = bounded(self.response_bounds, "response_bounds")

    def _response_cost(self, others: polars.DataFrame) -> float:
        return response_cost(others[RESPONSE].to_numpy(), *self._range)

    def _described(self, file: str) -> TableSource:
        low, high = self._range
        return described(self._schema, file, Number(column=RESPONSE, low=low, high=high))

    def _columns(self) -> dict[str, int]:
        return {**super()._columns(), "response": self._schema.dimension}


def _marked(given: FitPeople) -> polars.DataFrame:
    """Return people with their responses as the parties read them; the class that a table needs says nothing."""
    taken = {LABEL, RESPONSE} & set(given.frame.columns)
    if taken:
        raise BadFit(f"a column is called {taken.pop()!r}, which is needed for the responses: rename it")
    try:
        responses = numbers(given.target, "y", "y")
    except BadInput:
        raise BadFit("y must hold numbers only: leave out people without one") from None
    if not np.isfinite(responses).all():
        raise BadFit("y must hold finite numbers only: leave out people without one")
    response = polars.Series(RESPONSE, responses, polars.Float64)
    return given.frame.with_columns(response, polars.lit("positive").alias(LABEL))
