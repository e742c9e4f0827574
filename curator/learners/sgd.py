"""Private stochastic gradient descent for half-spaces: Algorithm 3, the learner inside Algorithm 4."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Self

import numpy as np

from common.core.arrays import Floats
from common.learners.half_spaces import SgdSettings
from common.local.hypotheses.hypothesis import Hypothesis, Linear
from common.local.records import Records
from curator.learners.base import LEARNERS, Learner
from curator.mechanisms.access import Access
from curator.mechanisms.clipped_steps import ClippedSteps


@LEARNERS.register("sgd")
class Sgd(SgdSettings, Learner):
    """Projected SGD, one fresh draw and one Gaussian vector a step (Algorithm 3 of Kohen & Sheffet).

    With y = (x, intercept), margin m = <h, y>, g the gradient of the loss at the draw, clipped to L2 norm L = ``clip``:

        h_{r+1} = project(soft_r(h_r - step_r (clip_L(g) + sigma N(0, I) + lambda (h_r - start)))),  sigma = noise * L
        step_r  = D / (sqrt(L^2 + sigma^2 dim) sqrt(r)),   or 1 / (lambda r) if lambda = ``regularization`` > 0
        soft_r  = moves each coordinate but the intercept's towards 0 by step_r * ``lasso``, and stops there

    where project is onto the L2 ball of radius D/2 around the public start, or onto the box [0, 1]^dim. Only the
    data's gradient is clipped: the regularizer's depends on what is public. Every step adds noise, also where the
    gradient is zero. Releasing every iterate would cost the same: soft threshold and projection see the noisy move
    only, so they are post-processing and cost nothing.

    Noise, grid and precision: :class:`curator.mechanisms.clipped_steps.ClippedSteps`.
    """

    @classmethod
    def example(cls) -> tuple[Self, ...]:
        return (cls(steps=20_000, noise=1.0, diameter=20.0),)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        width = access.dimension + (self.intercept != 0.0)
        answer = access.descend(self.descent, self._first(np.full(width, self.start), previous))
        threshold = -self.intercept * answer[-1] if self.intercept != 0.0 else 0.0
        return Linear(weights=tuple(answer[: access.dimension].tolist()), threshold=float(threshold))

    @property
    def descent(self) -> ClippedSteps:
        """The steps that are to be made."""
        return ClippedSteps(**{part.name: getattr(self, part.name) for part in fields(ClippedSteps)})

    def _first(self, start: Floats, previous: Hypothesis | None) -> Floats:
        if not (self.warm and isinstance(previous, Linear)):
            return start.copy()
        known = [*previous.weights, -previous.threshold / self.intercept] if self.intercept != 0.0 else previous.weights
        if len(known) != len(start):
            return start.copy()
        if self.domain == "box":
            return np.asarray(np.clip(known, 0.0, 1.0))
        away = np.asarray(known) - start
        return np.asarray(start + away * min(1.0, 0.5 * self.diameter / max(math.sqrt(np.square(away).sum()), 1e-300)))
