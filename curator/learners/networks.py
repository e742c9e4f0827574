"""NCnvxAdap with the cross-entropy: the softmax of several classes, and networks with one hidden layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.learners.adaptation import NetworkAdapSettings, NetworkFields
from common.local.hypotheses.composed import MAX_CLASSES, Argmax, column_classes
from common.local.hypotheses.hypothesis import Hypothesis, Network
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.loops import exp, log
from common.numerics.randomness import RandomSource
from curator.learners.adaptation import AdaptationLearner, NonconvexSettings
from curator.learners.base import LEARNERS, CallSizes
from curator.learners.discrepancy import TOLERANCE, private_value
from curator.learners.domains import Domains, DomainSide, Loss, Whitening
from curator.learners.noisy_descent import Bounds, Forces, Rows, StartingPoint, moved_scale
from curator.mechanisms.access import Access

_CODES = float(MAX_CLASSES)  # class c is the response c/64, which is exact and within [-1, 1]; no class is -1/64
FIT_STEPS = 200  # of L-BFGS on the public side
_RIDGE = 1e-4  # of the public fit, on all parameters
_TRIED, _AROUND = 16, 0.1  # number of public parameters for the local discrepancy; their distance, in radii


@dataclass(frozen=True)
class NetworkBounds(Bounds):
    """Public bounds on a record's loss and gradient, for any parameters with ||w|| <= Lambda and any ||x|| <= r.

    With k hidden units of activation z/(1 + |z|), the last layer V has the input h = (a, 1) of norm H = sqrt(k + 1) at
    most; without, h = x and H = r. The gradient in the scores, p - e_y, has norm at most sqrt(2), and the activation's
    slope is at most 1 and 2-Lipschitz. So a gradient is ((p - e_y) h', rho x') with ||rho|| <= sqrt(2) Lambda, and

        G = sqrt(2 (H^2 + Lambda^2 r^2)),   the loss is at most ln(1 + (C - 1) e^(sqrt(2) Lambda H)),
        beta = (H^2 + Lambda^2 r^2)/2 + sqrt(2) r (1 + 2 Lambda r),

    beta from the scores' Jacobian, the cross-entropy's curvature (at most 1/2), and the scores' second derivatives.
    """

    hidden: int = 0
    outputs: int = 2
    gradient_clip: float | None = None
    loss_clip: float | None = None

    @property
    def _input_norm(self) -> float:
        return math.sqrt(self.hidden + 1.0) if self.hidden else self.norm

    @property
    def _hidden_norm(self) -> float:
        return self.radius * self.norm if self.hidden else 0.0

    def parameters(self, features: int) -> int:
        if not self.hidden:
            return self.outputs * features
        return self.hidden * features + self.outputs * (self.hidden + 1)

    @property
    def most(self) -> float:
        return math.sqrt(2.0) * self.radius * self._input_norm

    @property
    def greatest(self) -> float:
        bound = float(np.logaddexp(0.0, math.log(self.outputs - 1.0) + self.most))
        return bound if self.loss_clip is None else min(bound, self.loss_clip)

    @property
    def width(self) -> float:
        return self.greatest

    @property
    def complexity(self) -> float:
        return 0.0  # no complexity bound of a network is used: alpha is chosen without that term

    @property
    def slope(self) -> float:
        bound = math.sqrt(2.0) * math.hypot(self._input_norm, self._hidden_norm)
        return bound if self.gradient_clip is None else min(bound, self.gradient_clip)

    @property
    def smoothness(self) -> float:
        inner = math.sqrt(2.0) * self.norm * (1.0 + 2.0 * self._hidden_norm) if self.hidden else 0.0
        return (self._input_norm**2 + self._hidden_norm**2) / 2.0 + inner


class NetworkSettings(NetworkFields, NonconvexSettings):
    """NCnvxAdap (Algorithm 2) with the cross-entropy of a softmax, linear or after a hidden layer.

    **Theorem.** Let every record's gradient be g' = g min(1, C/||g||) and its loss l' = min(l, B) where it moves its
    own scale, C and B public. Replace one private record in its place. Then at any parameters and scales v >= 1 the sum
    of p g'/v moves by at most 2 p C, p the record's reference weight, and the scales' gradient by at most B in the unit
    of :func:`curator.learners.noisy_descent.sensitivities`. So T iterations with the noise of
    :func:`common.privacy.theorems.gaussian_dp.step_noise` and the estimate of the discrepancy are mu-GDP together.

    *Proof.* g' is a function of one record and of earlier releases, of norm at most C. As v >= 1, p g'/v has norm at
    most p C, and two of them differ by at most 2 p C. l' is within [0, B], and only the record's own entry moves. The
    proof does not need a loss that is convex, smooth, or even differentiable: Lemma 4.2 (ii) and (iii) hold with C for
    G, and Gaussian mechanisms compose as before.

    Without clips (``gradient_clip`` and ``loss_clip`` null) C and B are G and the greatest loss of
    :class:`NetworkBounds`, nothing is shortened, and Theorem 5.2 is about a stationary point of J itself. With clips
    privacy holds, but Theorem 5.2 does not apply: at the point that is found, the clipped gradients balance.

    **Discrepancy.** The greatest |L_target(w) - L_source(w)| over all w of a network cannot be computed. It is taken
    over a public finite set of parameters: the start, and 15 random points at a distance of Lambda/10, or of ``local``.
    This is the *local* discrepancy of the paper's Section 2, a lower bound on the discrepancy. Losses are within
    [0, B], so replacing a record moves each difference, and their maximum, by at most B/n.
    """

    loss: ClassVar[Loss] = "cross-entropy"
    outputs: int = 2

    @property
    def bounds(self) -> Bounds:
        clips = {"gradient_clip": self.gradient_clip, "loss_clip": self.loss_clip}
        return NetworkBounds(self.loss, self.radius, self.norm, hidden=self.hidden, outputs=self.outputs, **clips)

    def shape(self, features: int) -> Shape:
        return Shape(features, self.hidden, self.outputs)

    def pass_over(self, rows: list[Rows], weights: Floats, forces: list[Forces]) -> Floats:
        sums = np.zeros(len(weights), dtype=np.int64)
        shape, bounds = self.shape(rows[0].features.shape[1]), self.bounds
        for side, force in zip(rows, forces, strict=True):
            move_network_rows(side, weights, shape, bounds.slope, bounds.greatest, sums, force)
        return sums.astype(np.float64)

    def opening(self, domains: Domains, source: RandomSource) -> StartingPoint:
        shape, public = self.shape(domains.dimension), domains.public
        weights = shape.random(self.norm, source.derive("start"))
        if self.start == "public":
            weights = _public_fit(public, shape, weights)
        return StartingPoint(self._inside(weights), math.inf, 1.0 / self.step)

    def discrepancy(self, domains: Domains, opening: StartingPoint, mu: float | None, source: RandomSource) -> float:
        greatest, estimate = self.bounds.greatest, 0.0
        for weights in self._candidates(opening, source.derive("tried")):
            source_loss, target_loss = (self.mean_loss(weights, side) for side in (domains.source, domains.target))
            estimate = max(estimate, target_loss - source_loss, 0.0 if self.one_sided else source_loss - target_loss)
        change = greatest / domains.people + 2.0 * TOLERANCE * greatest  # a mean of doubles loses less than eta
        return private_value(estimate, greatest, change, mu, source)

    def _candidates(self, opening: StartingPoint, source: RandomSource) -> list[Floats]:
        centre = np.asarray(opening.start)
        around = source.normals(_TRIED * len(centre)).reshape(_TRIED, -1)
        distance = _AROUND * self.radius if self.local is None else self.local
        around *= distance / np.linalg.norm(around, axis=1)[:, None]
        around[0] = 0.0
        return [self._inside(centre + step) for step in around]

    def _inside(self, weights: Floats) -> Floats:
        return weights * min(1.0, self.radius / max(float(np.linalg.norm(weights)), self.radius))

    def mean_loss(self, weights: Floats, side: DomainSide) -> float:
        scores = self.shape(side.dimension).forward(weights, side.features)[1]
        return float(np.minimum(_losses(scores, side.responses), self.bounds.greatest).mean())


class Shape(NamedTuple):
    """Sizes of a network whose parameters form one vector: hidden weights, unit by unit, then output weights."""

    features: int
    hidden: int
    outputs: int

    def layers(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the hidden layer (k, d) and the output (C, k + 1), constant last; without a hidden layer (C, d)."""
        split = self.hidden * self.features
        return weights[:split].reshape(self.hidden, self.features), weights[split:].reshape(self.outputs, -1)

    def forward(self, weights: Floats, features: Floats) -> tuple[Floats, Floats]:
        """Return the last layer's inputs for n rows, (n, k + 1) or (n, d), and their scores (n, C)."""
        hidden, output = self.layers(weights)
        inputs = features
        if self.hidden:
            sums = features @ hidden.T
            inputs = np.column_stack([sums / (1.0 + np.abs(sums)), np.ones(len(features))])
        return inputs, inputs @ output.T

    def random(self, norm: float, source: RandomSource) -> Floats:
        """Return random hidden weights, with sums of about 1 for a row of length ``norm``, and output weights 0."""
        hidden = source.normals(self.hidden * self.features) / norm
        return np.append(hidden, np.zeros(self.outputs * (self.hidden + 1 if self.hidden else self.features)))

    def gradient(self, weights: Floats, features: Floats, targets: Floats) -> tuple[float, Floats]:
        """Return the mean cross-entropy of rows with one-hot ``targets``, shape (n, C), and its gradient."""
        inputs, scores = self.forward(weights, features)
        totals = np.logaddexp.reduce(scores, axis=1)
        classified = targets.sum(axis=1)  # 0 for a row without a class
        wrong = (np.exp(scores - totals[:, None]) * classified[:, None] - targets) / len(features)
        loss = float((classified * totals - (scores * targets).sum(axis=1)).mean())
        output = wrong.T @ inputs
        if not self.hidden:
            return loss, output.ravel()
        sums = wrong @ self.layers(weights)[1][:, :-1] * (1.0 - np.abs(inputs[:, :-1])) ** 2
        return loss, np.concatenate([(sums.T @ features).ravel(), output.ravel()])


def _losses(scores: Floats, responses: Floats) -> Floats:
    """Return the cross-entropy of each row, shape (n,); 0 for a row without a class."""
    classes = np.rint(responses * _CODES).astype(np.int64)
    valid = (classes >= 0) & (classes < scores.shape[1])
    class_scores = np.take_along_axis(scores, np.where(valid, classes, 0)[:, None], axis=1)[:, 0]
    return np.where(valid, np.logaddexp.reduce(scores, axis=1) - class_scores, 0.0)


def _public_fit(side: DomainSide, shape: Shape, start: Floats) -> Floats:
    """Return the result of L-BFGS from ``start`` on the public side's mean cross-entropy with a small ridge."""
    from scipy.optimize import minimize  # here, since it takes a fifth of a second to load

    targets = (np.rint(side.responses * _CODES)[:, None] == np.arange(shape.outputs)).astype(np.float64)

    def penalized(weights: Floats) -> tuple[float, Floats]:
        loss, slope = shape.gradient(weights, side.features, targets)
        return loss + 0.5 * _RIDGE * float(weights @ weights), slope + _RIDGE * weights

    return np.asarray(minimize(penalized, start, jac=True, method="L-BFGS-B", options={"maxiter": FIT_STEPS}).x)


@njit
def move_network_rows(
    rows: Rows, weights: Floats, shape: Shape, clip: float, greatest: float, sums: AnyArray, forces: Forces
) -> None:
    """Do for a network, with gradients clipped to ``clip``, what :func:`curator.learners.noisy_descent.move_rows` does.

    In each layer a gradient is an outer product, so its norm is known before any coordinate is computed.
    """
    features, responses, noise, scales = rows
    d, k, outputs = shape
    width = k + 1 if k else d
    inputs, slopes, wrong, backward = np.ones(width), np.empty(k), np.empty(outputs), np.empty(k)
    for i in range(len(features)):
        length = 0.0  # squared norm of the row
        for m in range(d):
            length += np.float64(features[i, m]) ** 2
            if k == 0:
                inputs[m] = features[i, m]
        for j in range(k):
            z = 0.0
            for m in range(d):
                z += weights[j * d + m] * features[i, m]
            shrink = 1.0 / (1.0 + abs(z))
            inputs[j], slopes[j] = z * shrink, shrink * shrink
        label, top = int(np.rint(responses[i] * _CODES)), -np.inf
        for c in range(outputs):
            wrong[c] = 0.0
            for j in range(width):
                wrong[c] += weights[k * d + c * width + j] * inputs[j]
            top = max(top, wrong[c])
        classified = 1.0 if 0 <= label < outputs else 0.0
        total, score = 0.0, wrong[label if classified else 0]
        for c in range(outputs):
            wrong[c] = exp(wrong[c] - top)
            total += wrong[c]
        loss = min(max(classified * (log(total) + top - score), 0.0), greatest)
        error = 0.0  # squared norm of the gradient in the scores
        for c in range(outputs):
            wrong[c] = classified * (wrong[c] / total - (1.0 if c == label else 0.0))
            error += wrong[c] * wrong[c]
        size, inner = 0.0, 0.0
        for j in range(width):
            size += inputs[j] * inputs[j]
        for j in range(k):
            backward[j] = 0.0
            for c in range(outputs):
                backward[j] += slopes[j] * weights[k * d + c * width + j] * wrong[c]
            inner += backward[j] * backward[j]
        norm = math.sqrt(error * size + inner * length)
        weight = forces.share / scales[i]
        coefficient = weight * forces.units * (clip / norm if norm > clip else 1.0)
        for j in range(k):
            for m in range(d):
                sums[j * d + m] += int(np.rint(coefficient * backward[j] * features[i, m]))
        for c in range(outputs):
            for j in range(width):
                sums[k * d + c * width + j] += int(np.rint(coefficient * wrong[c] * inputs[j]))
        scales[i] = moved_scale(scales[i], weight, loss, noise[i], forces)


@LEARNERS.register("network-adap")
class NetworkAdap(NetworkAdapSettings, AdaptationLearner):
    """Classification by a softmax or small network, from the curator's sample and a public sample of another domain."""

    examples: ClassVar = tuple(
        {"alpha": 0.3, "mu": 2.0, "iterations": 300, "output": "last", "features": 3, "norm": 1.8}
        | {"radius": 20.0, "hidden": hidden}
        for hidden in (4, 0)
    )

    @property
    def used_features(self) -> int:
        return self.features if self.classes is None else self.classes.first + self.classes.count

    def parameters(self) -> int:
        return NetworkBounds("cross-entropy", 1.0, 1.0, hidden=self.hidden, outputs=self.outputs).parameters(
            self.features + self.intercept
        )

    def noise_numbers(self, sizes: CallSizes) -> int:
        return self.iterations * (sizes.people + sizes.public + self.parameters()) + 1

    def room(self, sizes: CallSizes) -> int:
        """Return the bytes of both samples, of the values of all units for every row, and of the memory of L-BFGS."""
        rows = sizes.people + sizes.public
        return super().room(sizes) + 8 * (rows * 5 * (self.hidden + self.outputs + 1) + 40 * self.parameters())

    def responses(self, records: Records) -> Floats:
        if self.classes is None:
            return np.where(records.labels > 0, 1.0, 0.0) / _CODES
        return column_classes(records.features, self.classes.first, self.classes.count) / _CODES

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        (weights, _), scaling = self.released(access, public, NetworkSettings, outputs=self.outputs)
        shape = Shape(self.features + self.intercept, self.hidden, self.outputs)
        hidden, output = shape.layers(weights)
        if self.classes is None:
            return self._score_hypothesis(hidden, output[1] - output[0], scaling)
        hypotheses = tuple(self._score_hypothesis(hidden, row, scaling) for row in output)
        return Argmax(first=self.classes.first, hypotheses=hypotheses)

    def _score_hypothesis(self, hidden: Floats, output: Floats, scaling: Whitening | None) -> Hypothesis:
        if not self.hidden:
            return self.half_space(self.unscaled(output, scaling))
        units = [self.affine(self.unscaled(row, scaling)) for row in hidden]
        return Network(
            hidden=tuple(tuple(slopes.tolist()) for slopes, _ in units),
            thresholds=tuple(-constant for _, constant in units),
            output=tuple(output[:-1].tolist()),
            threshold=-float(output[-1]),
        )
