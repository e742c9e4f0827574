"""What regressors share: a response within public bounds, as it travels to the parties, and predictions of it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars
from sklearn.base import RegressorMixin

from common.core.arrays import Floats
from common.core.errors import BadFit, BadInput
from common.data.tables import Number, TableSource
from common.statistics.intervals import Estimate
from tandem.estimators import frames
from tandem.estimators.base import FitPeople, HybridEstimator


class BoundedRegressor(RegressorMixin, HybridEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The base of the regressors; not one itself."""

    _numeric: ClassVar[bool] = True
    _shortens: ClassVar[bool] = False
    _range: tuple[float, float]

    def predict(self, X: object) -> Floats:
        """Return the response predicted for each of n people, shape (n,), within ``response_bounds``."""
        records = self._encoded(X)
        low, high = self._range
        return low + (high - low) * self.hypothesis_.values(records)

    def _people(self, X: object, y: object) -> polars.DataFrame:
        return self._marked(self._given(X, y, reset=True))

    def _marked(self, given: FitPeople) -> polars.DataFrame:
        """Return people with their responses as the parties read them; the class that a table needs says nothing."""
        frame, target = given
        taken = {frames.LABEL, frames.RESPONSE} & set(frame.columns)
        if taken:
            raise BadFit(f"a column is called {taken.pop()!r}, which is needed for the responses: rename it")
        try:
            responses = frames.numbers(target, "y", "y")
        except BadInput:
            raise BadFit("y must hold numbers only: leave out people without one") from None
        if not np.isfinite(responses).all():
            raise BadFit("y must hold finite numbers only: leave out people without one")
        response = polars.Series(frames.RESPONSE, responses, polars.Float64)
        return frame.with_columns(response, polars.lit("positive").alias(frames.LABEL))

    def _described(self, file: str) -> TableSource:
        low, high = self._range
        return frames.described(self._schema, file, Number(column=frames.RESPONSE, low=low, high=high))

    def _unit(self) -> float:
        """Return what a loss of 1 is, in the square of the response's units."""
        return (self._range[1] - self._range[0]) ** 2

    def _in_units(self, estimate: Estimate) -> Estimate:
        scaled = {name: self._unit() * getattr(estimate, name) for name in ("value", "low", "high")}
        return estimate.model_copy(update=scaled)

    def _released(self) -> None:
        if self.estimate_ is not None:
            self.estimate_ = self._in_units(self.estimate_)
