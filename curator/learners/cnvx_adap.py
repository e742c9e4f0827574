"""CnvxAdap: private adaptation for linear regression (Bassily, Cortes, Mao and Mohri 2024, Algorithm 1)."""

from __future__ import annotations

from typing import Self

import numpy as np

from common.core.arrays import Floats
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.hypotheses.regressor import Regressor
from common.local.records import Records
from common.vocabulary.learners.adaptation import CnvxAdapSettings
from curator.learners.adaptation.convex import ConvexSettings
from curator.learners.adaptation.learning import AdaptationLearner
from curator.learners.base import LEARNERS
from curator.metering.access import Access


@LEARNERS.register("cnvx-adap")
class CnvxAdap(CnvxAdapSettings, AdaptationLearner):
    """Regression on the curator's sample and a public one of another domain.

    See :mod:`curator.learners.adaptation.convex`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one that adapts a half-space."""
        return (cls(alpha=0.3, mu=2.0, iterations=300, features=3, norm=1.8, radius=3.0),)

    @property
    def wanted(self) -> int:
        """Features that a record must have."""
        return self.features if self.response is None else self.response + 1

    def responses(self, records: Records) -> Floats:
        """Return the response, from [0, 1] to [-1, 1], or the labels."""
        if self.response is None:
            return super().responses(records)
        return 2.0 * np.clip(records.features[:, self.response].astype(np.float64), 0.0, 1.0) - 1.0

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Learn from everybody and the public sample; only w is released."""
        found = self.adapted(access, public, self.settings(ConvexSettings))
        if self.response is None:
            return self.half_space(found)
        weights, constant = self.affine(found)
        return Regressor(
            weights=tuple((weights / 2.0).tolist()), intercept=(constant + 1.0) / 2.0, response=self.response
        )
