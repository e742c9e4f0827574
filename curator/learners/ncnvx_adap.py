"""NCnvxAdap: private adaptation for half-spaces by the logistic loss (Bassily et al. 2024, Algorithm 2)."""

from __future__ import annotations

from typing import Self

from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.vocabulary.learners.adaptation import NcnvxAdapSettings
from curator.learners.adaptation.learning import AdaptationLearner
from curator.learners.adaptation.nonconvex import NonconvexSettings
from curator.learners.base import LEARNERS
from curator.metering.access import Access


@LEARNERS.register("ncnvx-adap")
class NcnvxAdap(NcnvxAdapSettings, AdaptationLearner):
    """Labels by the curator's sample and a public one of another domain.

    See :mod:`curator.learners.adaptation.nonconvex`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        """Return one that adapts a half-space."""
        return (cls(alpha=0.3, mu=2.0, iterations=300, output="average", features=3, norm=1.8, radius=3.0),)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Learn from everybody and the public sample; only w is released."""
        return self.half_space(self.adapted(access, public, self.settings(NonconvexSettings)))
