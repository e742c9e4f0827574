"""A regression learned on people who trust the curator, taught and judged by agents; and the base of regressors."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import polars
from sklearn.base import RegressorMixin

from common.core.errors import BadFit, BadInput
from common.core.machine import works_after_fork
from common.data.tables import Number, TableSource
from common.models.model import Model
from common.scenario.fitting import FARTHEST, REGRESSION, Advice, accuracy, steps, usual_regression
from common.statistics.intervals import Estimate
from tandem.estimators import fitting, frames
from tandem.estimators.base import FitPeople, HybridEstimator, Sides


class BoundedRegressor(RegressorMixin, HybridEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the regressors; not one itself."""

    _numeric: ClassVar[bool] = True
    _shortens: ClassVar[bool] = False

    def predict(self, X: object) -> Any:
        """Return the response predicted for each of n people, shape (n,), within ``response_bounds``."""
        records = self._encoded(X)
        low, high = self._range
        return frames.as_output(self._output, X, low + (high - low) * self.hypothesis_.values(records))

    def _people(self, X: object, y: object) -> polars.DataFrame:
        return self._with_targets(self._read_people(X, y, reset=True))

    def _with_targets(self, people: FitPeople) -> polars.DataFrame:
        """Return people with their responses as the parties read them; the label that a table needs is not used."""
        frame, target = people
        clashes = {frames.LABEL, frames.RESPONSE} & set(frame.columns)
        if clashes:
            raise BadFit(f"a column is called {clashes.pop()!r}, which is needed for the responses: rename it")
        try:
            responses = frames.numbers(target, "y", "y")
        except BadInput:
            raise BadFit("y must hold numbers only: leave out people without one") from None
        if not np.isfinite(responses).all():
            raise BadFit("y must hold finite numbers only: leave out people without one")
        response = polars.Series(frames.RESPONSE, responses, polars.Float64)
        return frame.with_columns(response, polars.lit("positive").alias(frames.LABEL))

    def _table_source(self, file: str) -> TableSource:
        low, high = self._range
        return frames.table_source(self._schema, file, Number(column=frames.RESPONSE, low=low, high=high))

    def to_model(self) -> Model:
        model = super().to_model()
        *features, response = model.table.features
        if "response" not in self._schema.columns:
            response = response.model_copy(update={"column": "response"})
        table = model.table.model_copy(update={"features": (*features, response)})
        return model.model_copy(update={"table": table})

    def _unit(self) -> float:
        """Return the squared error that a loss of 1 stands for, in the square of the response's units."""
        return (self._range[1] - self._range[0]) ** 2

    def _in_units(self, estimate: Estimate) -> Estimate:
        scaled = {name: self._unit() * getattr(estimate, name) for name in ("value", "low", "high")}
        return estimate.model_copy(update=scaled)

    def _set_released(self) -> None:
        if self.estimate_ is not None:
            self.estimate_ = self._in_units(self.estimate_)


class TransferRegressor(BoundedRegressor):
    """A linear regression that fits a population, learned from a biased private sample.

    ``fit`` runs a protocol in the embedded deployment. The people of X are the curator's: a private learner sees them.
    The people of ``population`` are local agents: each answers at most one question by randomized response. Some report
    their response, others the residual of the model's prediction, which corrects its offset and slope for them; others
    judge, by their squared error, the model and the best that one side has alone: the uncorrected model or a constant
    (``docs/portfolio.md``). If they are too few to judge, they estimate the model's error.

    Args:
        epsilon, delta, agent_epsilon, bounds, schema, random_state, lifetime: As for
            :class:`~tandem.estimators.transfer.TransferClassifier`.
        response_bounds: *Public* bounds (low, high) of the response; responses beyond them are clipped. Never taken
            from the data.
        learner: ``"least-squares"``, or a mapping with ``name`` and settings of a learner of the squared loss
            (``docs/learners.md``).
        options: Rarely needed settings, by name:

            * ``farthest`` (.25): Public, in [2^-10, 1]: agents' errors are cut at this share of the response's bounds,
              so that they answer with less noise. ``estimate_`` is about errors cut there.
            * ``alpha``, ``beta``: As for :class:`~tandem.estimators.transfer.TransferClassifier`, in shares of the
              square of ``farthest``.
            * ``population_fraction``, ``id_column``: As there.

    Attributes:
        hypothesis_: The released model, as data (:class:`common.local.hypotheses.hypothesis.Regressor`).
        estimate_: Its mean squared error on the population with an interval at confidence 1 - beta, in the square of
            the response's units, for responses clipped to ``response_bounds`` and errors cut at ``farthest``.
        candidates_: The judged candidates: name, hypothesis, estimate and number of judges of each; empty if none.
        gap_: By how much that error may exceed that of the rival, which is presumed to be the best that either side has
            alone, in the same units, with probability 1 - beta; None if nothing was judged.
        advice_, guarantee_, result_, n_features_in_, feature_names_in_: As for
            :class:`~tandem.estimators.transfer.TransferClassifier`, whose errors and warnings ``fit`` has.

    Examples:
        >>> import numpy as np
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (6000, 2))
        >>> y = 0.5 * X[:, 0] - 0.2 * X[:, 1]
        >>> model = TransferRegressor(epsilon=1.0, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.8)
        True
    """

    _known_options: ClassVar = {
        **dict.fromkeys(("alpha", "id_column")),
        "beta": 0.05,
        "farthest": FARTHEST,
        "population_fraction": 0.5,
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        agent_epsilon: float = 1.0,
        response_bounds: Any = (-1.0, 1.0),
        learner: str | Mapping[str, Any] = "least-squares",
        bounds: Any = (-1.0, 1.0),
        schema: Any = None,
        random_state: Any = None,
        lifetime: tuple[float, float] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(epsilon, delta, agent_epsilon, bounds, schema, random_state, lifetime, options)
        self.response_bounds = response_bounds
        self.learner = learner

    @works_after_fork
    def fit(self, X: Any, y: Any = None, *, population: Any = None, **further: Any) -> Self:
        """Learn from the curator's people, taught and judged by the population's; return self.

        Args:
            X: The curator's people, in any form that :meth:`TransferClassifier.fit
                <tandem.estimators.transfer.TransferClassifier.fit>` takes.
            y: Their responses, shape (n,); or the name of the column of X that has them.
            population: The agents' people, (X, y) in any of these forms; a frame or path alone if y names a column.
                None: see ``population_fraction``.
        """
        seed = self._checked_seed(further)
        self._range = frames.check_pair(self.response_bounds, "response_bounds")
        farthest = self._number("farthest")
        if not 2.0**-10 <= farthest <= 1.0:
            raise BadFit(f"farthest must be in [{2.0**-10:g}, 1], a share of the response's bounds, found {farthest:g}")
        people = self._people(X, y)
        sides = self._sides(people, seed, X, y, population)
        tree, advice = self._settled_tree(sides, farthest * farthest)
        for words in advice.warnings:
            warnings.warn(words, fitting.CannotHelpWarning, stacklevel=3)
        self._carry_out(tree, sides, seed)
        self.advice_ = advice
        return self

    def _settled_tree(self, sides: Sides, bound: float) -> tuple[dict[str, Any], Advice]:
        settings = fitting.learner_tree(self.learner)
        width = self._schema.dimension + 1
        if settings.get("name") == "least-squares":
            settings = {**usual_regression(len(self._schema.features)), **settings}
        elif settings.get("name") == "sgd":
            settings = {"loss": "squared", "noise": "plan", "clip": 1.0, "diameter": 2.0 * math.sqrt(width), **settings}
            settings = {"steps": steps(len(sides.curator)), **settings}

        def tree(protocol: str, alpha: float, loss: Mapping[str, Any]) -> dict[str, Any]:
            scenario = self._tree(
                sides,
                {"rounds": 1, "kappa": 1.0 if settings.get("name") == "sgd" else None, "learner": settings},
                name="transfer-regressor",
                title="A regression learned from a biased private sample, tested on the population",
                protocol=protocol,
                alpha=alpha,
                beta=self._number("beta"),
            )
            return {**scenario, "agents": {**scenario["agents"], **loss}}

        # The precision of agents' answers about a loss in [0, 1] does not depend on the kind of loss.
        advice = fitting.advice_for(tree("learn-and-test", 0.1, {}), response=True)
        protocol = REGRESSION if advice.protocol == "portfolio" else advice.protocol
        alpha = accuracy(advice) if self._value("alpha") is None else self._number("alpha")
        return tree(protocol, alpha, {"loss": "squared", "bound": bound}), advice

    def _unit(self) -> float:
        return super()._unit() * self._number("farthest") ** 2

    def _set_released(self) -> None:
        super()._set_released()
        self.candidates_ = self._judged_candidates()
        gap = self.result_.get("gap")
        self.gap_: float | None = None if gap is None else self._unit() * gap
