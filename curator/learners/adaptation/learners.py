"""The learners cnvx-adap and ncnvx-adap: the curator's sample and a public one, as the two domains."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.learners.adaptation import AdaptationSettings as PublicSettings
from common.learners.adaptation import CnvxAdapSettings, NcnvxAdapSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.linear import Linear, Regressor
from common.local.records import Records
from curator.learners.adaptation.algorithms import Adaptation, ConvexSettings, DescentSettings, NonconvexSettings
from curator.learners.adaptation.domains import DomainSide, Whitening, whitening
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.metering.access import Access

S = TypeVar("S", bound=DescentSettings)


class AdaptationLearner(PublicSettings, Learner):
    """A learner on the sample itself and a public sample of another domain; the weights play no part.

    Both see x' = (x - center, 1), or (whitened x, 1), of the first ``features`` features x. Everything of the sample
    that is released is the hypothesis: mu-GDP in all (replace one record in its place).
    """

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if dimension < self.wanted:
            raise BadScenario(f"{self.name} looks at features up to number {self.wanted - 1}, people have {dimension}")

    def check_public(self, public: Records | None) -> None:
        self._fitting(public)

    def noise_numbers(self, sizes: CallSizes) -> int:
        return self.iterations * (sizes.people + sizes.public + self.features + 1) + 1

    def room(self, sizes: CallSizes) -> int:
        rows = sizes.people + sizes.public
        whitened = 0 if self.whitening == "none" else 16 * self.features * rows + 64 * self.features**2
        return rows * (sizes.width + 48 * self.features + 64) + whitened

    def _fitting(self, public: Records | None) -> Records:
        if public is None or not len(public):
            raise BadScenario(f"{self.name} adapts from a public sample: give the scenario a section public")
        if public.dimension < self.wanted:
            raise BadScenario(
                f"source and target must have the same features: {self.name} looks at features up to number "
                f"{self.wanted - 1}, public people have {public.dimension}"
            )
        return public

    @property
    def wanted(self) -> int:
        """Features that a record must have."""
        return self.features

    def settings(self, kind: type[S]) -> S:
        """Return the algorithm's settings; ``norm`` is of x - center, and the algorithm's of x'."""
        given = self.model_dump(include=set(kind.model_fields))
        return kind(**{**given, "norm": math.hypot(given["norm"], 1.0) if self.intercept else given["norm"]})

    def adapted(self, access: Access, public: Records | None, settings: ConvexSettings | NonconvexSettings) -> Floats:
        """Return w: private for the sample, which is one side, ||x - center|| <= ``norm`` on both."""
        given = self._fitting(public)
        scaling = self._scaling(given)
        side = partial(self._side, scaling=scaling)
        found = access.release(Adaptation(settings, side(given), self.private, self.mu), side)
        if scaling is None:
            return found
        own, constant = scaling.pulled_back(found[: self.features])
        # The same prediction as of x - center, which :meth:`affine` starts from.
        return np.append(own, constant + self.center * float(own.sum()) + (found[-1] if self.intercept else 0.0))

    def _scaling(self, public: Records) -> Whitening | None:
        if self.whitening == "none":
            return None
        return whitening(public.features[:, : self.features].astype(np.float64), self.norm)

    def _side(self, records: Records, scaling: Whitening | None) -> DomainSide:
        features = records.features[:, : self.features].astype(np.float64)
        features = features - self.center if scaling is None else scaling.moved(features)
        side = DomainSide(features, self.responses(records)).bounded(self.norm)
        if not self.intercept:
            return side
        return DomainSide(np.column_stack([side.features, np.ones(len(side))]), side.responses)

    def responses(self, records: Records) -> Floats:
        """Return what is to be predicted, in [-1, 1]: the labels."""
        return records.labels.astype(np.float64)

    def affine(self, weights: Floats) -> tuple[Floats, float]:
        """Return the prediction <w, x'> as weights of x and a constant."""
        own = weights[: self.features]
        return own, float(weights[self.features] if len(weights) > self.features else 0.0) - self.center * float(
            own.sum()
        )

    def half_space(self, weights: Floats) -> Hypothesis:
        """Return sign(<w, x'>) as a hypothesis."""
        own, constant = self.affine(weights)
        return Linear(weights=tuple(own.tolist()), threshold=-constant)


@LEARNERS.register("cnvx-adap")
class CnvxAdap(CnvxAdapSettings, AdaptationLearner):
    """Regression on the curator's sample and a public one of another domain.

    See :mod:`curator.learners.adaptation.algorithms`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(alpha=0.3, mu=2.0, iterations=300, features=3, norm=1.8, radius=3.0),)

    @property
    def wanted(self) -> int:
        return self.features if self.response is None else self.response + 1

    def responses(self, records: Records) -> Floats:
        if self.response is None:
            return super().responses(records)
        return 2.0 * np.clip(records.features[:, self.response].astype(np.float64), 0.0, 1.0) - 1.0

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        found = self.adapted(access, public, self.settings(ConvexSettings))
        if self.response is None:
            return self.half_space(found)
        weights, constant = self.affine(found)
        return Regressor(
            weights=tuple((weights / 2.0).tolist()), intercept=(constant + 1.0) / 2.0, response=self.response
        )


@LEARNERS.register("ncnvx-adap")
class NcnvxAdap(NcnvxAdapSettings, AdaptationLearner):
    """Labels by the curator's sample and a public one of another domain.

    See :mod:`curator.learners.adaptation.algorithms`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(alpha=0.3, mu=2.0, iterations=300, output="average", features=3, norm=1.8, radius=3.0),)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        return self.half_space(self.adapted(access, public, self.settings(NonconvexSettings)))
