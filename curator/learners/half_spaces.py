"""Learners of half-spaces: private gradient descent (Algorithm 3), Fisher's discriminant, and least squares."""

import math
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from common.core.arrays import AnyArray, Floats, Labels, Singles
from common.core.errors import BadScenario
from common.learners.base import ClassColumns
from common.learners.half_spaces import DiscriminantSettings, FullBatchSettings, LeastSquaresSettings, SgdSettings
from common.local.hypotheses.composed import Argmax, column_classes
from common.local.hypotheses.hypothesis import GREATEST, Hypothesis, Linear, Regressor, row_product
from common.local.records import Records
from common.numerics.kernels import njit
from common.numerics.loops import logistic
from common.operations.operation import MAX_DIRECTIONS, ClassScores, Directions, Learned
from common.privacy.rounding import down
from curator.learners.base import LEARNERS, CallSizes, Learner
from curator.learners.preconditioning import Preconditioner, precondition, room
from curator.mechanisms.access import Access, unchanged
from curator.mechanisms.gradient_steps import ClippedSteps
from curator.mechanisms.sums import ClassMoments, ClippedSum, Moments


@LEARNERS.register("sgd")
class Sgd(SgdSettings, Learner):
    """Projected SGD with one fresh draw and one Gaussian vector per step (Algorithm 3 of Kohen & Sheffet).

    With y = (x, intercept), margin m = <h, y>, and g the gradient of the loss at the draw, clipped to L2 norm L =
    ``clip`` (the squared loss predicts the last feature, which is then not part of x):

        h_{r+1} = project(soft_r(h_r - step_r (clip_L(g) + sigma N(0, I) + lambda (h_r - start)))),  sigma = noise * L
        step_r  = D / (sqrt(L^2 + sigma^2 dim) sqrt(r)),   or 1 / (lambda r) if lambda = ``regularization`` > 0
        soft_r  = moves each coordinate but the intercept's towards 0 by step_r * ``lasso``, and stops there

    where ``project`` maps onto the L2 ball of radius D/2 around the public start, or onto the box [0, 1]^dim. Only the
    gradient of the data is clipped; that of the regularizer depends on public values only. Every step adds noise, even
    if the gradient is zero. Soft threshold and projection see only the noisy move, so they cost nothing. For noise,
    grid and precision see :class:`curator.mechanisms.gradient_steps.ClippedSteps`.

    With a first ``look``, x is z/R cut to length 1 (:mod:`curator.learners.preconditioning`). That is a function of one
    record, so the guarantee of a step does not change. The look is a Gaussian release of the sample itself before the
    first step and composes adaptively with the steps; the event contains both.
    """

    examples: ClassVar = (
        {"steps": 20_000, "noise": 1.0, "diameter": 20.0},
        {"steps": 20_000, "noise": 1.0, "diameter": 20.0, "look": 0.1},
    )

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        width = self.width(access.dimension)
        if self.look:
            scaler = precondition(access, self.look, self.norm)
            weights = access.descend(self.descent, np.zeros(width), scaler.clip)
            threshold = -self.intercept * weights[-1] if self.intercept else 0.0
            return scaler.half_space(weights[: access.dimension] / scaler.radius, float(threshold))
        vector = access.descend(self.descent, self._first(np.full(width, self.start), previous))
        threshold = -self.intercept * vector[-1] if self.intercept != 0.0 else 0.0
        if self.loss == "squared":
            response = access.dimension - 1
            return Regressor(weights=tuple(vector[:response].tolist()), intercept=float(-threshold), response=response)
        return Linear(weights=tuple(vector[: access.dimension].tolist()), threshold=float(threshold))

    def noise_numbers(self, sizes: CallSizes) -> int:
        return (3 if self.look else 1) * sizes.dimension + 1

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if self.width(dimension) < 1 or (self.loss == "squared" and dimension < 2):
            raise BadScenario("sgd: loss squared is of the last feature on those before it: one feature is too few")

    @property
    def descent(self) -> ClippedSteps:
        return ClippedSteps(**{part.name: getattr(self, part.name) for part in fields(ClippedSteps)})

    def _first(self, start: Floats, previous: Hypothesis | None) -> Floats:
        if not (self.warm and isinstance(previous, Linear | Regressor)):
            return start.copy()
        constant = -previous.threshold if isinstance(previous, Linear) else previous.intercept
        previous_weights = [*previous.weights, constant / self.intercept] if self.intercept != 0.0 else previous.weights
        if len(previous_weights) != len(start):
            return start.copy()
        if self.domain == "box":
            return np.asarray(np.clip(previous_weights, 0.0, 1.0))
        offset = np.asarray(previous_weights) - start
        return np.asarray(
            start + offset * min(1.0, 0.5 * self.diameter / max(math.sqrt(np.square(offset).sum()), 1e-300))
        )


@LEARNERS.register("discriminant")
class Discriminant(DiscriminantSettings, Learner):
    """Linear discriminant analysis from noisy means and second moments of both labels.

    The half-space is ``<(W + lambda I)^-1 (m_+ - m_-), z - (m_+ + m_-)/2> + ln(n_+/n_-) > 0``. z are the records after
    a first look at them (:mod:`curator.learners.preconditioning`), W is the covariance within classes, m are the means
    of the classes and n their sizes. All come from one noisy release (:class:`curator.mechanisms.sums.ClassMoments`);
    the rest is post-processing. lambda is ``ridge`` times the spectral norm of W's noise, about 2 tau sqrt(d) for
    symmetric noise of standard deviation tau (Wigner). Where noise dominates the covariance, the difference of means
    decides; elsewhere the discriminant is Fisher's (1936). With few people it keeps more of the signal than gradient
    steps, which pay for each direction anew (docs/learners.md). The score is the log odds if classes are normal with
    equal covariances.

    With columns of classes it learns a score for each class (:func:`learned_classes`).
    """

    examples: ClassVar = ({"mu": 2.0, "norm": 2.0},)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        first, count = self.class_columns
        if dimension < first + count:
            raise BadScenario(
                f"discriminant: classes stand in features {first} to {first + count - 1}, records have {dimension} "
                "features: numbers start at 0"
            )

    def noise_numbers(self, sizes: CallSizes) -> int:
        size, count = sizes.dimension, max(2, self.class_columns[1])
        return 3 * size + count * (size + 1) + size * (size + 1) // 2

    def room(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return room(sizes) + (8 << 13) * 6 * size + 8 * 12 * size * size

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        return self.learned(access, previous, public).hypothesis

    def learned(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Learned:
        """Return the half-space and the directions, both post-processing of the same release."""
        if self.classes is not None:
            return learned_classes(access, self, self.classes)
        scaler = precondition(access, self.shares[0], self.norm)
        mechanism = ClassMoments(scaler.radius, access.dimension, self.shares[1])
        moments = access.release(mechanism, scaler.transform)
        count, plain, square = mechanism.deviations
        weights, threshold = discriminant(moments, access.people, count, plain, square, self.ridge)
        planes = [
            scaler.half_space(row / scaler.shrink / scaler.radius, offset)
            for row, offset in zip(*directions(moments, access.people, square, self.ridge), strict=True)
        ]
        axes = Directions(
            rows=tuple(plane.weights for plane in planes), offsets=tuple(plane.threshold for plane in planes)
        )
        return Learned(hypothesis=scaler.half_space(weights / scaler.radius, threshold), directions=axes)


_CLIP = 0.5
"""Clip of a gradient: its norm at 0 for a record of length 1. Only misclassified records have longer ones later."""
_CONSTANT = 0.25  # the feature of the intercept: it takes little of a record's length and still moves fast enough
_COUNTED = 0.02  # share of mu'^2 for the number of records of each class


@LEARNERS.register("full-batch")
class FullBatch(FullBatchSettings, Learner):
    """Logistic regression by T noisy gradient steps on the whole sample; T is small, to limit the total noise.

    Let y = (z/R, c), z the records after a first look, clipped to R (:mod:`curator.learners.preconditioning`), and
    c = ``_CONSTANT``. With g_i = -l_i y_i/(1 + e^{l_i <h, y_i>}) clipped to L2 norm L = 1/2:

        h_{r+1} = h_r - rate (sum_i g_i + N(0, (2 L/mu_r)^2 I))/n,    mu_r = mu' sqrt(49/50)/sqrt(T)

    The result is the average of the last half of the iterates. h_0 is 0 except for the intercept, which is the log odds
    of the classes from a noisy count with mu' sqrt(1/50). If one class is rare, steps from 0 would be spent on the
    intercept. Replacing a record moves a sum of gradients by at most 2 L, so a step is mu_r-GDP
    (:class:`curator.mechanisms.sums.ClippedSum`), and a number of people by 1. The first look, the count and all T
    steps together are mu-GDP (Dong, Roth and Su 2022, Corollary 2): mu' is what the first look leaves of mu. No step
    reads a weight of a reweighed sample.

    Early stopping regularizes: along a direction of little variance, or with few people, h stays short, while the
    discriminant divides by a covariance that it has to release. Noise is added to d + 1 numbers per step, not d^2/2.
    """

    examples: ClassVar = ({"mu": 2.0, "norm": 2.0},)

    def noise_numbers(self, sizes: CallSizes) -> int:
        return 3 * sizes.dimension + 1 + self.count(sizes.people) * (sizes.dimension + 1)

    def room(self, sizes: CallSizes) -> int:
        return 3 * room(sizes) + (8 << 13) * 6 * (sizes.dimension + 1)

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        scaler, width = precondition(access, self.shares[0], self.norm), access.dimension + 1
        steps = self.count(access.people)
        count_mu, step_mu = (down(self.shares[1] * math.sqrt(share), 64.0) for share in (_COUNTED, 1.0 - _COUNTED))
        iterate, total = np.zeros(width), np.zeros(width)
        iterate[-1] = _log_odds(access, count_mu) / _CONSTANT
        mechanism = ClippedSum(_CLIP, width, down(step_mu / math.sqrt(steps), 64.0))
        for number in range(steps):
            gradient = access.release(mechanism, partial(_gradients, scaler, iterate))
            iterate = iterate - self.rate / access.people * gradient
            total += iterate * (number >= steps // 2)
        weights = total / (steps - steps // 2)
        return scaler.half_space(weights[:-1] / scaler.radius, float(-_CONSTANT * weights[-1]))


def _log_odds(access: Access, mu: float) -> float:
    """Return ln(n_+/n_-) from noisy counts, mu-GDP; 1/mu, the noise's standard deviation, is added to both counts."""
    difference = float(access.release(ClippedSum(0.5, 1, mu), lambda records: 0.5 * records.labels[:, None])[0])
    negative, positive = (max(access.people / 2.0 + sign * difference, 0.0) + 1.0 / mu for sign in (-1, 1))
    return math.log(positive / negative)


def _gradients(scaler: Preconditioner, iterate: Floats, records: Records) -> AnyArray:
    """Return each record's gradient of the logistic loss at a point, shape (k, d + 1), not clipped.

    The gradient of a record that is not finite is 0. Compiled loops compute the same bits on every processor.
    """
    rows = np.empty((len(records), len(iterate)), dtype=np.float32)
    features = scaler.transform(records).features
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", features, features))
    weights = Linear(weights=tuple(iterate.tolist()), threshold=0.0).vector
    _slope(features, records.labels, lengths, np.float32(scaler.radius), weights, rows)
    return rows


@njit
def _slope(features: AnyArray, labels: Labels, lengths: Singles, radius: Any, weights: Singles, rows: Singles) -> None:
    last = features.shape[1]
    for i in range(len(rows)):
        share = np.float32(1.0) / max(lengths[i], radius)
        for j in range(last):
            rows[i, j] = features[i, j] * share
        rows[i, last] = _CONSTANT
        margin = row_product(rows, i, weights) * np.float32(labels[i])
        factor = np.float32(-labels[i] * logistic(-np.float64(margin)))
        for j in range(last + 1):
            rows[i, j] *= factor


def directions(moments: Moments, people: int, square: float, ridge: float) -> tuple[Floats, Floats]:
    """Return at most 64 principal directions, shape (k, d), and the means along them, both divided by the deviation.

    Units are those of the moments. The ridge times the spectral norm of the noise is added to each variance.
    """
    mean = moments.first.sum(axis=0) / people
    values, vectors = np.linalg.eigh(moments.second / people - np.outer(mean, mean))
    noise = 2.0 * (square / math.sqrt(2.0)) * math.sqrt(len(mean)) / people
    first = np.argsort(-values, kind="stable")[:MAX_DIRECTIONS]
    rows = vectors.T[first] / np.sqrt(np.maximum(values[first], 0.0) + ridge * noise)[:, None]
    return rows, rows @ mean


def discriminant(
    moments: Moments, people: int, count: float, plain: float, square: float, ridge: float
) -> tuple[Floats, float]:
    """Return the discriminant's weights and threshold, in the units of the moments, for n ``people`` of both classes.

    ``count``, ``plain`` and ``square`` are the standard deviations of the noise on a number of people, on a sum of
    features and on a sum of squares. The ridge is in units of the spectral norm of the covariance's noise.
    """
    least = min(math.sqrt(2.0) * count, people / 2.0)
    negative, positive = moments.counts
    plus = float(np.clip((positive + people - negative) / 2.0, least, people - least))
    sizes = np.array([people - plus, plus])
    means = moments.first / sizes[:, None]
    scatter = moments.second - np.einsum("c,ci,cj->ij", sizes, means, means)
    noise = 2.0 * (square / math.sqrt(2.0)) * math.sqrt(means.shape[1]) / people
    values, vectors = np.linalg.eigh(scatter / people)
    difference = vectors.T @ (means[1] - means[0])
    values = np.maximum(values, 0.0)
    direction = difference / (values + ridge * noise)
    # Along w the distance of the classes is <w, m_+ - m_->, a part of which is noise, and the variance is w'Ww.
    spurious = plain * plain * float((1.0 / sizes**2).sum() * (1.0 / (values + ridge * noise)).sum())
    distance = float(direction @ difference)
    slope = max(distance - spurious, 0.1 * distance) / max(float(direction @ (values * direction)), 0.05 * distance)
    weights = vectors @ (slope * direction)
    threshold = float(weights @ (means[0] + means[1]) / 2.0) - math.log(sizes[1] / sizes[0])
    return weights, threshold


def learned_classes(access: Access, settings: DiscriminantSettings, columns: ClassColumns) -> Learned:
    """Return the argmax of the classes' scores, from the first look and one release of :class:`ClassMoments`.

    *Privacy.* The class of a record and the features that are used are functions of that record alone. So the release
    is that of :class:`ClassMoments`, mu-GDP for any number of classes; all else is post-processing. A record with no
    class, or with several, is counted in the first class.
    """
    select = partial(_select_features, columns)
    scaler = precondition(access, settings.shares[0], settings.norm, select, columns.first)
    mechanism = ClassMoments(scaler.radius, columns.first, settings.shares[1], columns.count)
    moments = access.release(mechanism, lambda records: scaler.transform(select(records)))
    weights, thresholds, shares, means, covariance = discriminants(
        moments, access.people, mechanism.deviations, settings.ridge
    )
    planes = [scaler.half_space(row / scaler.radius, float(b)) for row, b in zip(weights, thresholds, strict=True)]
    # Subtract the mean of the scores: it is the same for all classes and does not change the argmax.
    rows, borders = np.array([plane.weights for plane in planes]), np.array([plane.threshold for plane in planes])
    pairs = zip((rows - rows.mean(axis=0)).tolist(), (borders - borders.mean()).tolist(), strict=True)
    return Learned(
        hypothesis=Argmax(
            first=columns.first, hypotheses=tuple(Linear(weights=tuple(row), threshold=b) for row, b in pairs)
        ),
        scores=ClassScores(shares=tuple(shares.tolist()), means=_rows(means), root=_rows(_root(covariance))),
    )


def discriminants(
    moments: Moments, people: int, deviations: tuple[float, float, float], ridge: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return scores <w_c, z> - b_c of C classes, in the units of the moments, and their distribution, for n ``people``.

    The result is w (C, d) and b (C,), then the classes' shares of people, the means of scores by class (C, C) and their
    covariance within classes (C, C): scores are modelled as normal in each class, with one covariance.
    ``deviations`` are those of the noise on a number of people, on a sum of features and on a sum of squares. The mean
    of a class is shrunk towards the overall mean by what noise adds to their distance (James and Stein 1961), at most
    all the way: a class with few people then has a share but no direction. One factor for all classes then turns the
    scores into log odds, as for two classes.
    """
    count, plain, square = deviations
    classes, size = moments.first.shape
    sizes = np.clip(moments.counts, min(math.sqrt(2.0) * count, people / (2.0 * classes)), people)
    sizes *= people / sizes.sum()
    shares, means = sizes / people, moments.first / sizes[:, None]
    scatter = moments.second / people - np.einsum("c,ci,cj->ij", shares, means, means)
    noise = 2.0 * (square / math.sqrt(2.0)) * math.sqrt(size) / people
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values, 0.0)
    damped = values + ridge * noise
    center = shares @ means
    offsets = (means - center) @ vectors
    distances = np.maximum((offsets * offsets / damped).sum(axis=1), 1e-12)
    spurious = (plain / sizes) ** 2 * float((1.0 / damped).sum())
    offsets *= np.clip(1.0 - spurious / distances, 0.0, 1.0)[:, None]
    axes = offsets / damped
    between = float(shares @ (axes * offsets).sum(axis=1))
    variance = float(shares @ (axes * axes * values).sum(axis=1))
    axes *= between / max(variance, 0.05 * between, 1e-12)
    scores = axes @ offsets.T  # row c: the score of class c at the means of all classes
    constants = np.log(shares) - 0.5 * np.diagonal(scores)
    weights = axes @ vectors.T
    return weights, weights @ center - constants, shares, scores.T + constants, (axes * values) @ axes.T


def _select_features(columns: ClassColumns, records: Records) -> Records:
    """Return the records as the learner sees them: the features before the class columns, with the class as label."""
    classes = column_classes(records.features, columns.first, columns.count)
    return Records(np.ascontiguousarray(records.features[:, : columns.first]), np.maximum(classes, 0).astype(np.int8))


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _rows(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.clip(matrix, -GREATEST, GREATEST).tolist())


_LEAST = 1e-3  # least spread of a regression's predictions, in units of the response's bounds


@LEARNERS.register("least-squares")
class LeastSquares(LeastSquaresSettings, Learner):
    """Ridge regression from noisy means and second moments of features and response.

    The prediction is ``m_y + <(A + lambda I)^-1 c, x - m>``, A the covariance of features, c theirs with the response.
    All come from one noisy release (:class:`curator.mechanisms.sums.ClassMoments`, with one class) of the records z
    after a first look (:mod:`curator.learners.preconditioning`), with the response as a further feature. A record that
    is too long is shortened as a whole, so a linear relation of its response and features stays linear. lambda is
    ``ridge`` times the spectral norm of A's noise. The noise of c adds a part to the weights that explains nothing, so
    the weights are multiplied by the least-squares factor that remains without it. The regression carries the mean and
    the standard deviation of its own predictions, which agents need to estimate its slope; both are post-processing.
    """

    examples: ClassVar = ({"mu": 2.0, "norm": 2.0, "predicts": "label"},)

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        if self.predicts == "response" and dimension < 2:
            raise BadScenario("least-squares: the last feature is predicted from those before it: one is too few")

    def noise_numbers(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return 4 * size + 1 + size * (size + 1) // 2

    def room(self, sizes: CallSizes) -> int:
        size = sizes.dimension + 1
        return 2 * room(sizes) + (8 << 13) * 6 * size + 8 * 12 * size * size

    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        labelled = self.predicts == "label"
        convert = _with_label if labelled else unchanged
        width = access.dimension + int(labelled)
        scaler = precondition(access, self.shares[0], self.norm, convert, width, response=True)
        mechanism = ClassMoments(scaler.radius, width, self.shares[1], classes=1)
        moments = access.release(mechanism, lambda records: _unlabelled(scaler.transform(convert(records))))
        weights, mean, covariance = least_squares(moments, access.people, mechanism.deviations, self.ridge)
        # Convert from z = s (x - m), in units of the radius, to x.
        middle = scaler.mean + scaler.radius * mean / scaler.scale
        slopes = np.clip(weights * scaler.scale[:-1] / scaler.scale[-1], -GREATEST, GREATEST)
        intercept = float(np.clip(middle[-1] - slopes @ middle[:-1], -GREATEST, GREATEST))
        if labelled:
            return Linear(weights=tuple(slopes.tolist()), threshold=0.5 - intercept)
        return Regressor(
            weights=tuple(slopes.tolist()),
            intercept=intercept,
            response=width - 1,
            center=float(np.clip(middle[-1], 0.0, 1.0)),
            spread=float(np.clip(math.sqrt(_variance(slopes, scaler, covariance)), _LEAST, 1.0)),
        )


def least_squares(
    moments: Moments, people: int, deviations: tuple[float, float, float], ridge: float
) -> tuple[Floats, Floats, Floats]:
    """Return weights, means of features and response, and the features' covariance, in the units of the moments.

    ``deviations`` are the standard deviations of the noise on numbers of people, on sums and on sums of squares.
    """
    square = deviations[2] / people
    mean = moments.first[0] / people
    covariance = moments.second / people - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance[:-1, :-1])
    values = np.maximum(values, 0.0)
    projection = vectors.T @ covariance[:-1, -1]
    damped = values + ridge * math.sqrt(2.0 * len(values)) * square
    direction = projection / damped
    # The predictions' covariance with the response, a part of which is noise, and their variance.
    explained = float(direction @ projection)
    spurious = 0.5 * square * square * float((1.0 / damped).sum())
    variance = float(direction @ (values * direction))
    slope = max(explained - spurious, 0.1 * explained) / max(variance, 0.05 * explained, 1e-12)
    return vectors @ (slope * direction), mean, (vectors * values) @ vectors.T


def _variance(weights: Floats, scaler: Preconditioner, covariance: Floats) -> float:
    """Return the variance of <w, x>, for features with the variances of x and the correlations of the clipped z."""
    scaled = weights / scaler.scale[:-1]
    if scaler.variances is None:
        return float(scaled @ covariance @ scaled) * scaler.radius**2
    independent = max(float(np.square(scaled) @ np.diagonal(covariance)), 1e-300)
    ratio = float(np.clip(scaled @ covariance @ scaled / independent, 1.0 / len(scaled), len(scaled)))
    return ratio * float(np.square(weights) @ scaler.variances[:-1])


def _with_label(records: Records) -> Records:
    label = (records.labels > 0).astype(np.float32)
    return Records(np.column_stack([records.features.astype(np.float32), label]), records.labels)


def _unlabelled(records: Records) -> Records:
    return Records(records.features, np.zeros(len(records), dtype=np.int8))
