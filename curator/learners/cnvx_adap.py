"""CnvxAdap: private adaptation for linear regression (Bassily, Cortes, Mao and Mohri 2024, Algorithm 1)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from common.core.arrays import Floats
from common.numerics.randomness import RandomSource
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.hypotheses.regressor import Regressor
from common.vocabulary.records import Records
from curator.learners.adaptation.convex import ConvexSettings, fit_convex
from curator.learners.adaptation.learning import AdaptationLearner
from curator.learners.base import LEARNERS
from curator.weights.sampling import Sampler


@LEARNERS.register("cnvx-adap")
class CnvxAdap(AdaptationLearner, ConvexSettings):
    """Regression on the curator's sample and a public one of another domain.

    See :mod:`curator.learners.adaptation.convex`.

    Attributes
    ----------
    response
        The feature that is predicted, in [0, 1] by its public bounds, behind those that are looked at: the algorithm
        sees it as 2 y - 1, and what is released is a regressor. Null: the label, and a half-space.
    """

    name: Literal["cnvx-adap"] = "cnvx-adap"
    response: int | None = Field(default=None, ge=1, lt=1 << 17)

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one that adapts a half-space."""
        return (cls(alpha=0.3, mu=2.0, iterations=300, features=3, norm=1.8, radius=3.0),)

    @model_validator(mode="after")
    def _blind(self) -> Self:
        if self.response is not None and self.response < self.features:
            raise ValueError(f"response = {self.response} is among the {self.features} features that are looked at")
        return self

    @property
    def wanted(self) -> int:
        """Features that a record must have."""
        return self.features if self.response is None else self.response + 1

    def responses(self, records: Records) -> Floats:
        """Return the response, from [0, 1] to [-1, 1], or the labels."""
        if self.response is None:
            return super().responses(records)
        return 2.0 * np.clip(records.features[:, self.response].astype(np.float64), 0.0, 1.0) - 1.0

    def learn(
        self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None, public: Records | None = None
    ) -> Hypothesis:
        """Learn from everybody and the public sample; only w is released."""
        found = fit_convex(self.domains(sampler, public, self.norm), self.settings(ConvexSettings), self.mu, source)
        if self.response is None:
            return self.half_space(found)
        weights, constant = self.affine(found)
        return Regressor(
            weights=tuple((weights / 2.0).tolist()), intercept=(constant + 1.0) / 2.0, response=self.response
        )
