"""Private stochastic gradient descent for half-spaces: Algorithm 3, the learner inside Algorithm 4."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
from pydantic import Field

from common.arrays import AnyArray, Floats, Labels
from common.hypotheses.base import Hypothesis
from common.hypotheses.linear import Linear
from common.kernels import njit
from common.privacy.events import Event, NonPrivate, SubsampledSteps
from common.randomness import RandomSource
from common.records import Records
from curator.gaussian import normals
from curator.learners.base import LEARNERS, Learner
from curator.sampling import Sampler

SHRINK = 2.0**-32
"""Gradients are clipped to this share less than ``clip``, so that rounding cannot take one beyond it."""
_LOSSES = ("logistic", "hinge", "perceptron")
_CELLS = 1 << 17
"""Noise held at once, in numbers: two blocks of it stay in the second-level cache."""


@LEARNERS.register("sgd")
class Sgd(Learner):
    """Projected SGD, one fresh draw and one Gaussian vector a step (Algorithm 3 of Kohen & Sheffet).

    With y = (x, intercept), margin m = <h, y>, g the gradient of the loss at the draw, clipped to L2 norm L
    = ``clip``:

        h_{r+1} = project(soft_r(h_r - step_r (clip_L(g) + sigma N(0, I) + lambda (h_r - start)))),  sigma = noise * L
        step_r  = D / (sqrt(L^2 + sigma^2 dim) sqrt(r)),   or 1 / (lambda r) if lambda = ``regularization`` > 0
        soft_r  = moves each coordinate but the intercept's towards 0 by step_r * ``lasso``, and stops there

    where project is onto the L2 ball of radius D/2 around the public start, or onto the box [0, 1]^dim. Only the
    data's gradient is clipped: the regularizer's depends on what is public. Every step adds noise, also where the
    gradient is zero. Releasing every iterate would cost the same: soft threshold and projection see the noisy move
    only, so they are post-processing and cost nothing.

    Attributes
    ----------
    loss
        ``logistic`` ln(1 + e^{-lm}); ``hinge`` max(0, 1 - lm); ``perceptron`` max(0, -lm), which is the
        paper's with the sign put right (at lm = 0 it takes the slope -l, so that a start at 0 is not stuck).
    steps
        R.
    clip
        L, public. Neighbouring draws' gradients lie in a ball of this radius around 0.
    noise
        sigma / L; 0 is not private.
    diameter
        D: of the ball; for the box it only scales the steps (the box itself measures sqrt(dim)).
    domain
        ``ball`` or ``box``. The box with a negative intercept is the paper's class of ellipses (Appendix D):
        <w, x> > b with all of w and b in [0, 1], where the features are squares.
    regularization
        lambda >= 0.
    lasso
        Weight >= 0 of the L1 norm that every proximal step adds to the loss (ISTA's soft threshold); the Lasso
        of Appendix D. ``last`` gives the sparse iterate; an average is sparse only where all its iterates are.
    intercept
        c, the value of the feature appended to every record: m = <w, x> + c h_last; 0 for none. If it is
        negative, h_last = b / abs(c) stands for the threshold itself.
    start
        Every coordinate of the public start.
    output
        ``average`` of all iterates, ``suffix`` (average of the last half) or ``last``.
    warm
        Begin at the previously released hypothesis (public), where there is one, instead of ``start``.
    """

    name: Literal["sgd"] = "sgd"
    loss: Literal["logistic", "hinge", "perceptron"] = "logistic"
    steps: int = Field(ge=1, le=10**10)
    clip: float = Field(default=1.0, gt=0)
    noise: float = Field(ge=0)
    diameter: float = Field(gt=0)
    domain: Literal["ball", "box"] = "ball"
    regularization: float = Field(default=0.0, ge=0)
    lasso: float = Field(default=0.0, ge=0)
    intercept: float = 1.0
    start: float = 0.0
    output: Literal["average", "suffix", "last"] = "average"
    warm: bool = False

    def event(self, sampling: float) -> Event:
        """R subsampled Gaussian steps of ratio u = 2 L / sigma = 2 / noise (replace-one neighbours)."""
        if self.noise == 0.0:
            return NonPrivate()
        # Up to the next double: a ratio rounded down would claim more noise than there is.
        return SubsampledSteps(count=self.steps, sampling=sampling, ratio=math.nextafter(2.0 / self.noise, math.inf))

    def learn(self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None) -> Hypothesis:
        """Run R steps; draws, noise and their gathering run one block ahead, in a second thread."""
        width = sampler.dimension + (self.intercept != 0.0)
        start = np.full(width, self.start)
        iterate = self._first(start, previous)
        total = np.zeros(width)
        sigma = self.noise * self.clip
        clip = self.clip * (1.0 - SHRINK)
        scale = self.diameter / math.sqrt(self.clip**2 + sigma**2 * width)
        burn = {"average": 0, "suffix": self.steps // 2, "last": self.steps - 1}[self.output]
        done = 0
        for records, noise in self._blocks(sampler, source, width):
            _descend(
                records.features, records.labels, noise, iterate, start, total, _LOSSES.index(self.loss),
                done, burn, self.intercept, clip, sigma, scale, self.regularization, self.lasso,
                0.0 if self.domain == "box" else 0.5 * self.diameter,
            )  # fmt: skip
            done += len(records)
        answer = total / (self.steps - burn)
        threshold = -self.intercept * answer[-1] if self.intercept != 0.0 else 0.0
        return Linear(weights=tuple(answer[: sampler.dimension].tolist()), threshold=float(threshold))

    def _first(self, start: Floats, previous: Hypothesis | None) -> Floats:
        if not (self.warm and isinstance(previous, Linear)):
            return start.copy()
        known = [*previous.weights, -previous.threshold / self.intercept] if self.intercept != 0.0 else previous.weights
        if len(known) != len(start):
            return start.copy()
        if self.domain == "box":
            return np.asarray(np.clip(known, 0.0, 1.0))
        away = np.asarray(known) - start
        return np.asarray(start + away * min(1.0, 0.5 * self.diameter / max(float(np.linalg.norm(away)), 1e-300)))

    def _blocks(self, sampler: Sampler, source: RandomSource, width: int) -> Iterator[tuple[Records, Floats]]:
        """Yield draws with their noise; the next block is prepared while the caller works on this one."""
        size = max(1, min(_CELLS // width, self.steps))
        drawing, noising = source.derive("draws"), source.derive("noise")

        def prepare(count: int) -> tuple[Records, Floats]:
            rows = sampler.draws(count, drawing)
            return rows, normals(count * width if self.noise > 0.0 else 0, noising).reshape(-1, width)

        with ThreadPoolExecutor(1, "sgd") as pool:
            left = self.steps - size
            ahead = pool.submit(prepare, size)
            while left > 0:
                ready, ahead = ahead.result(), pool.submit(prepare, min(size, left))
                left -= size
                yield ready
            yield ahead.result()


# Four sums at once in the next two: one would wait for each addition to end before it began the next.


@njit
def _products(row: AnyArray, iterate: Floats) -> tuple[float, float]:
    """Return <row, iterate> and <row, row> over the row's features."""
    whole = len(row) // 4 * 4
    m0 = m1 = m2 = m3 = s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        x0, x1 = np.float64(row[j]), np.float64(row[j + 1])
        x2, x3 = np.float64(row[j + 2]), np.float64(row[j + 3])
        m0 += x0 * iterate[j]
        m1 += x1 * iterate[j + 1]
        m2 += x2 * iterate[j + 2]
        m3 += x3 * iterate[j + 3]
        s0 += x0 * x0
        s1 += x1 * x1
        s2 += x2 * x2
        s3 += x3 * x3
    for j in range(whole, len(row)):
        x0 = np.float64(row[j])
        m0 += x0 * iterate[j]
        s0 += x0 * x0
    return float((m0 + m1) + (m2 + m3)), float((s0 + s1) + (s2 + s3))


@njit
def _squared_distance(one: Floats, other: Floats) -> float:
    whole = len(one) // 4 * 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 += (one[j] - other[j]) ** 2
        s1 += (one[j + 1] - other[j + 1]) ** 2
        s2 += (one[j + 2] - other[j + 2]) ** 2
        s3 += (one[j + 3] - other[j + 3]) ** 2
    for j in range(whole, len(one)):
        s0 += (one[j] - other[j]) ** 2
    return float((s0 + s1) + (s2 + s3))


@njit
def _descend(
    features: AnyArray,
    labels: Labels,
    noise: Floats,
    iterate: Floats,
    start: Floats,
    total: Floats,
    loss: int,
    done: int,
    burn: int,
    intercept: float,
    clip: float,
    sigma: float,
    scale: float,
    regularization: float,
    lasso: float,
    radius: float,
) -> None:
    """Make one step a record, in place, after ``done`` earlier ones; sum up the iterates after ``burn``.

    ``radius`` is the ball's; 0 stands for the box.
    """
    dimension = features.shape[1]
    width = len(iterate)
    noisy = sigma > 0.0
    for k in range(len(labels)):
        label = float(labels[k])
        margin, square = _products(features[k], iterate)
        square += intercept * intercept
        if width > dimension:
            margin += intercept * float(iterate[dimension])
        if loss == 0:
            slope = -label / (1.0 + np.exp(label * margin))
        elif loss == 1:
            slope = -label if label * margin < 1.0 else 0.0
        else:
            slope = -label if label * margin <= 0.0 else 0.0
        if slope * slope * square > clip * clip:
            slope *= clip / (abs(slope) * np.sqrt(square))
        rank = done + k + 1
        step = 1.0 / (regularization * rank) if regularization > 0.0 else scale / np.sqrt(rank)
        for j in range(width):
            move = slope * (np.float64(features[k, j]) if j < dimension else intercept)
            if noisy:
                move += sigma * float(noise[k, j])
            move += regularization * float(iterate[j] - start[j])
            iterate[j] -= step * move
        if lasso > 0.0:
            for j in range(dimension):
                iterate[j] -= min(max(iterate[j], -step * lasso), step * lasso)
        if radius == 0.0:
            for j in range(width):
                iterate[j] = min(max(iterate[j], 0.0), 1.0)
        distance = _squared_distance(iterate, start)
        if radius > 0.0 and distance > radius * radius:
            shrink = radius / np.sqrt(distance)
            for j in range(width):
                iterate[j] = start[j] + (iterate[j] - start[j]) * shrink
        if rank > burn:
            for j in range(width):
                total[j] += iterate[j]
