"""CnvxAdap as a regressor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars
from sklearn.base import RegressorMixin

from common.core.arrays import Floats
from common.core.errors import BadFit, BadInput
from common.core.machine import works_after_fork
from common.data.tables import Number, TableSource
from tandem.estimators.adaptation import Adapter
from tandem.estimators.base import Given
from tandem.estimators.shared.clipping import RESPONSE, response_cost, widened
from tandem.estimators.shared.frames import labelled, numbers
from tandem.estimators.shared.schema import LABEL, bounded, described


class DomainAdapterRegressor(RegressorMixin, Adapter):  # type: ignore[misc]  # scikit-learn has no types
    """A linear regression for a target domain with few private people, helped by a public sample of a source domain.

    ``fit`` runs CnvxAdap (Bassily, Cortes, Mao & Mohri, 2024, Algorithm 1) in the embedded deployment, as
    :class:`~tandem.estimators.domain_classifier.DomainAdapter` runs NCnvxAdap. Agents answer with their squared error,
    in [0, 1] by the public bounds of the response, rounded to a bit by chance and randomized.

    Parameters
    ----------
    epsilon, delta, agent_epsilon, alpha, private, radius, iterations, bounds, schema, norm, settings, grid, choice
        As of :class:`~tandem.estimators.domain_classifier.DomainAdapter`. If not given, ``output`` is ``suffix``, and
        ``residual_clip`` is ``public``: noise is calibrated to residuals as the public sample's fit has them.
    response_bounds
        *Public* bounds (low, high) of what is predicted, or ``"public"``: the least and the greatest response of the
        public sample. Responses beyond are clipped to them, in learning and in the agents' answers, so that
        ``estimate_`` is the error for clipped responses.
    population_fraction, random_state
        As of :class:`~tandem.estimators.transfer.TransferClassifier`.
    lifetime
        (epsilon, delta) that all fits and runs may cost a real person together, whichever side they are on; None: they
        take part once.
    id_column
        The column of X and of the population, given as frames or files, that says who is who: by it people are
        recognised in further fits, instead of by their rows. Nothing else is done with it. None: that of the schema.

    Attributes
    ----------
    estimate_
        The mean squared error on the population, in the square of the response's units, with an interval; of responses
        clipped to ``response_bounds``.
    public_clipped_
        As of :class:`~tandem.estimators.domain_classifier.DomainAdapter`; the response's share is under ``"response"``.
    hypothesis_, guarantee_, result_, n_features_in_, feature_names_in_
        As of :class:`~tandem.estimators.transfer.TransferClassifier`.

    Raises
    ------
    BadFit
        From ``fit``: a ValueError. Parameters or data are not acceptable; nothing was spent.
    FitFailed
        From ``fit``: the run ended without an answer; ``guarantee_`` counts it as spent.
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

        Parameters
        ----------
        X
            The curator's people: an array of shape (n, d), a pandas or polars frame, or with a schema the path of a
            CSV or Parquet file.
        y
            Their responses, shape (n,), or the name of the column of X that has them.
        public
            The public sample of the other domain, (X, y) in any of these forms; a frame or path alone if y names a
            column. Required.
        population
            The agents' people of the target, in the same forms. None: see ``population_fraction``.

        Returns
        -------
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


def _marked(given: Given) -> polars.DataFrame:
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
