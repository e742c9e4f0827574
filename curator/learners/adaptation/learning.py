"""What both adaptation learners share: the curator's sample and the public one, as the two domains."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from common.core.arrays import Floats
from common.core.errors import BadScenario
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.linear import Linear
from common.vocabulary.learners.adaptation import AdaptationSettings as PublicSettings
from common.vocabulary.records import Records
from curator.learners.adaptation.convex import ConvexSettings
from curator.learners.adaptation.domains import Side
from curator.learners.adaptation.mechanism import Adaptation
from curator.learners.adaptation.nonconvex import NonconvexSettings
from curator.learners.adaptation.settings import AdaptationSettings
from curator.learners.base import Learner, Sizes
from curator.metering.access import Access

S = TypeVar("S", bound=AdaptationSettings)


class AdaptationLearner(PublicSettings, Learner):
    """A learner on the sample itself and a public sample of another domain; the weights play no part.

    Both see x' = (x - center, 1) of the first ``features`` features x. Everything of the sample that is released is the
    hypothesis: mu-GDP in all (replace one record in its place).
    """

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Refuse records that have too few features."""
        if dimension < self.wanted:
            raise BadScenario(f"{self.name} looks at features up to number {self.wanted - 1}, people have {dimension}")

    def check_public(self, public: Records | None) -> None:
        """Refuse to adapt from nothing, or from people with other features."""
        self._fitting(public)

    def noise_numbers(self, sizes: Sizes) -> int:
        """Return one number a weight and one a person in each iteration, and the discrepancy's."""
        return self.iterations * (sizes.people + sizes.public + self.features + 1) + 1

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of both samples in doubles, some times over while they are brought within their bounds."""
        return (sizes.people + sizes.public) * (sizes.width + 48 * self.features + 64)

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
        other = self._side(self._fitting(public))
        return access.release(Adaptation(settings, other, self.private, self.mu), self._side)

    def _side(self, records: Records) -> Side:
        features = records.features[:, : self.features].astype(np.float64) - self.center
        side = Side(features, self.responses(records)).bounded(self.norm)
        if not self.intercept:
            return side
        return Side(np.column_stack([side.features, np.ones(len(side))]), side.responses)

    def responses(self, records: Records) -> Floats:
        """Return what is to be predicted, in [-1, 1]: the labels."""
        return records.labels.astype(np.float64)

    def affine(self, weights: Floats) -> tuple[Floats, float]:
        """Return the prediction <w, x'> as weights of x and a constant."""
        own = weights[: self.features]
        return own, float(weights[-1] if self.intercept else 0.0) - self.center * float(own.sum())

    def half_space(self, weights: Floats) -> Hypothesis:
        """Return sign(<w, x'>) as a hypothesis."""
        own, constant = self.affine(weights)
        return Linear(weights=tuple(own.tolist()), threshold=-constant)
