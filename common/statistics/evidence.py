"""Evidence about a population's mean, from randomized answers: mixture e-processes, and the tests that rest on them.

A test decides whether a hypothesis's loss err on T is above ``low`` or below ``high`` (at least one is true). Two
e-processes run beside each other, one against each null hypothesis::

    "err <= low"    E = sum_k w_k exp(A_k total - B_k count),     rejecting it shows err > low
    "err >= high"   the mirrored one,                             rejecting it shows err < high

where ``total`` is the number of ones (bit mechanisms) or the sum of unbiased answers (real ones). Under its null each E
is a non-negative supermartingale that starts at 1, so by Ville's inequality the probability that it ever reaches 1/beta
is at most beta. The nulls are disjoint: at most one of the two errors is possible, so one beta covers both.

Valid for fresh agents drawn independently from T (an unused i.i.d. pool in random order). Not valid for a finite
population sampled without replacement, for agents asked twice, nor where silence depends on the answer.

Functions raise :class:`BadInput` for numbers outside the ranges that they state, and for levels that 10^15 answers
cannot tell apart.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from common.core.errors import BadInput
from common.local.mechanisms.mechanism import BitMechanism, Mechanism

_MIDDLE_WEIGHT = 0.25
_RATIO = math.sqrt(2.0)
_ROUNDING = 2.0**-46
_EDGE = 1e-6
_MAX_ANSWERS = 1e15


def log_sum(terms: Sequence[float]) -> float:
    """Return ln sum e^term."""
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


@dataclass(frozen=True)
class EProcess:
    """A mixture e-process against one null hypothesis; its first component is the one for the mid-point.

    Attributes:
        weights: w_k, positive, summing to 1.
        slopes, offsets: A_k and B_k.
        condition: How much an error of one unit in the null's parameter changes a log-likelihood ratio, per answer.
    """

    weights: tuple[float, ...]
    slopes: tuple[float, ...]
    offsets: tuple[float, ...]
    condition: float

    def log_value(self, total: float, count: int) -> float:
        """Return ln E, rounded down by a bound on the rounding errors of doubles."""
        terms = [
            math.log(weight) + slope * total - offset * count
            for weight, slope, offset in zip(self.weights, self.slopes, self.offsets, strict=True)
        ]
        return log_sum(terms) - self.slack(abs(total), count)

    def slack(self, total: float, count: float) -> float:
        steepest = max(map(abs, self.slopes))
        return _ROUNDING * (steepest * total + (max(map(abs, self.offsets)) + self.condition) * count) + 1e-12


@dataclass(frozen=True)
class EProcesses:
    """Both e-processes for one question, and how fast each must grow.

    Attributes:
        above: Against err <= low.
        below: Against err >= high.
        middle: The err at which both grow equally fast.
        rate: What the mid-point component of at least one of the two gains per answer, whatever the answers are.
    """

    above: EProcess
    below: EProcess
    middle: float
    rate: float


@lru_cache(maxsize=256)
def gather(mechanism: Mechanism, low: float, high: float) -> EProcesses:
    """Build both e-processes for a mechanism.

    Bit mechanisms have Bernoulli(q) answers, q = (1-p) + (2p-1) err, and use exact likelihood ratios (theta_k/q_low)^y
    ((1-theta_k)/(1-q_low))^(1-y). The grid theta_k starts at the mid-point m with kl(m, q_low) = kl(m, q_high), that is
    m = v/(u+v) with u = ln(q_high/q_low), v = ln((1-q_low)/(1-q_high)). Real mechanisms use exp(rate (answer - low) -
    psi(rate)), psi the mechanism's ``log_mgf``, with the rates that are best for a grid of distances from ``low``,
    starting at half the gap.
    """
    if not 0.0 < low < high < 1.0:
        raise BadInput(
            f"a test needs 0 < low < high < 1, found low = {low:g} and high = {high:g}; these are "
            "reweigh_above * alpha and halt_below * alpha, each beyond best: choose a smaller alpha or smaller factors"
        )
    return _for_bits(mechanism, low, high) if isinstance(mechanism, BitMechanism) else _for_reals(mechanism, low, high)


def worst_case(mechanism: Mechanism, low: float, high: float, beta: float) -> int:
    """Return N*, by which the sequential test always ends: ceil((ln(1/beta) + ln(1/w_m)) / rate).

    If the answers' mean is at or above the mid-point, the mid-point component of ``above`` has gained at least kl(m,
    q_low) per answer; otherwise that of ``below`` has gained at least kl(m, q_high), which is equal.
    """
    evidences = gather(mechanism, low, high)
    need = needed(beta) + math.log(1.0 / _MIDDLE_WEIGHT) + 2e-12
    loss = max(e.slack(3.0, 1.0) - e.slack(0.0, 0.0) for e in (evidences.above, evidences.below))
    return _count(need, evidences.rate - loss, low, high)


def fixed_size(mechanism: Mechanism, low: float, high: float, beta: float) -> int:
    """Return the number of answers at which comparing their mean with the mid-point errs with probability <= beta.

    Chernoff: ceil(ln(1/beta) / rate), rate = kl(m, q_low) = kl(m, q_high) for bits, psi*(half the gap) for reals.
    """
    evidences = gather(mechanism, low, high)
    return _count(needed(beta), evidences.rate * (1.0 - 2.0**-30), low, high)


def failure(mechanism: Mechanism, low: float, high: float, size: int) -> float:
    """Bound the chance that the mean of so many answers is on the wrong side of (low + high)/2, by Chernoff.

    The population's mean value is ``low`` or less, or ``high`` or more.
    """
    rate = gather(mechanism, low, high).rate
    if isinstance(mechanism, BitMechanism):
        middle, *nulls = (
            (1.0 - mechanism.truth) + (2.0 * mechanism.truth - 1.0) * loss for loss in ((low + high) / 2.0, low, high)
        )
        rate = min(kl(middle, null) for null in nulls)
    return math.exp(-size * rate * (1.0 - 2.0**-30))


def typical(mechanism: Mechanism, low: float, high: float, beta: float, loss: float) -> int:
    """Return about how many answers the sequential test needs when the loss on T is ``loss``: for plans only.

    Wald's approximation (no overshoot, no batches): the first n at which some component's expected log-value reaches
    ln(1/beta); at most N*.
    """
    evidences = gather(mechanism, low, high)
    mean = (
        (1.0 - mechanism.truth) + (2.0 * mechanism.truth - 1.0) * loss if isinstance(mechanism, BitMechanism) else loss
    )
    best = float(worst_case(mechanism, low, high, beta))
    for evidence in (evidences.above, evidences.below):
        for weight, slope, offset in zip(evidence.weights, evidence.slopes, evidence.offsets, strict=True):
            drift = slope * mean - offset
            if drift > 0.0:
                best = min(best, (needed(beta) + math.log(1.0 / weight)) / drift)
    return math.ceil(best)


def needed(beta: float) -> float:
    """Return ln(1/beta), the log-evidence that Ville's inequality asks for."""
    if not 0.0 < beta < 1.0:
        raise BadInput(f"a failure probability must be in (0, 1), found {beta}")
    return -math.log(beta)


def kl(a: float, b: float) -> float:
    """Return the relative entropy of Bernoulli(a) from Bernoulli(b) in nats, for 0 < a, b < 1."""
    return a * math.log(a / b) + (1.0 - a) * math.log((1.0 - a) / (1.0 - b))


def _count(need: float, rate: float, low: float, high: float) -> int:
    if not rate > 0.0 or need / rate > _MAX_ANSWERS:
        raise _too_close(low, high)
    return math.ceil(need / rate) + 1


def _too_close(low: float, high: float) -> BadInput:
    return BadInput(
        f"losses {low:g} and {high:g} cannot be distinguished with 10^15 answers: widen the gap or raise the "
        "agents' epsilon"
    )


def _weights(components: int) -> tuple[float, ...]:
    if components == 1:
        return (1.0,)
    return (_MIDDLE_WEIGHT, *([(1.0 - _MIDDLE_WEIGHT) / (components - 1)] * (components - 1)))


def _distances(first: float, last: float) -> list[float]:
    grid = [first]
    while grid[-1] * _RATIO < last:
        grid.append(grid[-1] * _RATIO)
    return [*grid, last] if last > first else grid


def _for_bits(mechanism: BitMechanism, low: float, high: float) -> EProcesses:
    truth = mechanism.truth
    null_low, null_high = ((1.0 - truth) + (2.0 * truth - 1.0) * loss for loss in (low, high))
    gap = (2.0 * truth - 1.0) * (high - low)
    u, v = math.log1p(gap / null_low), math.log1p(gap / (1.0 - null_high))
    middle = v / (u + v)
    if not null_low < middle < null_high:
        raise _too_close(low, high)
    top, bottom = min(truth, 1.0 - _EDGE), max(1.0 - truth, _EDGE)
    above = [null_low + d for d in _distances(middle - null_low, top - null_low)]
    below = [null_high - d for d in _distances(null_high - middle, null_high - bottom)]
    ratios = _likelihood_ratios(above, null_low), _likelihood_ratios(below, null_high)
    rate = min(kl(middle, null_low), kl(middle, null_high))
    return EProcesses(*ratios, middle=(middle - (1.0 - truth)) / (2.0 * truth - 1.0), rate=rate)


def _likelihood_ratios(thetas: list[float], null: float) -> EProcess:
    ones = [math.log(theta / null) for theta in thetas]
    zeros = [math.log((1.0 - theta) / (1.0 - null)) for theta in thetas]
    slopes, offsets = tuple(one - zero for one, zero in zip(ones, zeros, strict=True)), tuple(-zero for zero in zeros)
    return EProcess(_weights(len(thetas)), slopes, offsets, condition=1.0 / null + 1.0 / (1.0 - null))


def _for_reals(mechanism: Mechanism, low: float, high: float) -> EProcesses:
    half = (high - low) / 2.0
    up = [best_rate(mechanism, distance) for distance in _distances(half, 1.0 - low)]
    down = [-best_rate(mechanism, distance) for distance in _distances(half, high)]
    gain = min(rate * half - mechanism.log_mgf(rate) for rate in (up[0], -down[0]))
    ratios = _exponentials(mechanism, up, low), _exponentials(mechanism, down, high)
    return EProcesses(*ratios, middle=(low + high) / 2.0, rate=gain)


def _exponentials(mechanism: Mechanism, rates: list[float], null: float) -> EProcess:
    offsets = tuple(rate * null + mechanism.log_mgf(rate) for rate in rates)
    return EProcess(_weights(len(rates)), tuple(rates), offsets, condition=1.0)


def best_rate(mechanism: Mechanism, distance: float) -> float:
    """Return the rate > 0 that (about) maximizes rate * distance - psi(rate); any rate at all is sound."""

    def gain(rate: float) -> float:
        return rate * distance - mechanism.log_mgf(rate)

    left, right = 0.0, 1e-9
    while gain(2.0 * right) > gain(right):
        right *= 2.0
    right *= 2.0
    for _ in range(100):
        first, second = left + (right - left) / 3.0, right - (right - left) / 3.0
        if gain(first) < gain(second):
            left = first
        else:
            right = second
    return left


FALSE_ALARM = 1e-9
"""Upper bound on the probability, at one look, that honest answers are called implausible.

A run looks twice at each question: at its answers, and at all answers so far.
"""


def implausible(mechanism: BitMechanism, ones: int, count: int, lies: int = 0) -> bool:
    """Tell whether ``count`` honest answers hardly ever hold so few, or so many, ones.

    *Theorem.* For independent honest answers, whatever their values are, this is true with probability
    :data:`FALSE_ALARM` at most.

    *Proof.* An honest answer is 1 with a probability in [1 - p, p], p being the chance of the truth. So the number of
    ones is stochastically at least that of ``count`` flips of a coin with 1 - p, and at most that with p. By Chernoff's
    bound such a coin shows a share of a or less, a < 1 - p, with probability exp(-count kl(a, 1 - p)) at most, and the
    other one a share of a or more, a > p, with probability exp(-count kl(a, p)); each is at most half of
    :data:`FALSE_ALARM` where this is true. Up to ``lies`` answers may be anything: this is true only if the nearest
    number of ones, at most that many away from the one found, is as unlikely.

    If it is true, answers were left out because of what they say, or a large share are lies: then no estimate holds for
    the people.
    """
    if count == 0 or mechanism.truth >= 1.0:
        return False
    share, low, high = ones / count, 1.0 - mechanism.truth, mechanism.truth
    if low <= share <= high:
        return False
    # The nearest that honest agents could have given.
    share = min(share + lies / count, low) if share < low else max(share - lies / count, high)
    if share in (low, high):
        return False
    # Too many ones are the mirror image of too few.
    share = min(share, 1.0 - share)
    entropy = kl(share, low) if share > 0.0 else -math.log1p(-low)
    return count * entropy > math.log(2.0 / FALSE_ALARM)


Verdict = Literal["above", "below"]


@dataclass(frozen=True)
class SequentialState:
    """The state of a test, from its answers so far.

    Attributes:
        answers: How many it has.
        worst_case: Number of answers by which it has decided.
        above, below: Natural logarithms of the e-values against "the loss is at most ``low``" and "the loss is at least
            ``high``"; None for a test that looks only once, at the end.
        needed: ln(1/beta): the first of the two to reach it decides the verdict; None likewise.
    """

    answers: int
    worst_case: int
    above: float | None = None
    below: float | None = None
    needed: float | None = None


class LossTest(ABC):
    """Decides whether the loss on T is above a lower level or below a higher one.

    Its state is the sum of the answers and their number, so a replay of the same batches gives the same verdict.

    Attributes:
        total, count: Sum of the answers so far (ones, or unbiased answers), and their number.
        verdict: None until it has decided; never changes afterwards.
        worst_case: Number of answers by which it has decided.
    """

    def __init__(self, worst_case: int) -> None:
        self.worst_case = worst_case
        self.total = 0.0
        self.count = 0
        self.verdict: Verdict | None = None

    def update(self, total: float, count: int) -> None:
        """Take in a batch.

        Args:
            total: Number of ones (bit mechanisms), or sum of the unbiased answers (real ones).
            count: Number of answers; 0 changes nothing.
        """
        if count < 0:
            raise BadInput(f"a batch holds at least 0 answers, found {count}")
        self.total += total
        self.count += count
        if self.verdict is None and count:
            self.verdict = self._decide()

    def reached(self) -> SequentialState:
        return SequentialState(self.count, self.worst_case)

    @abstractmethod
    def next_batch(self, first: int) -> int:
        """Return how many answers to ask for next, if ``first`` is how many to begin with; 0 after the verdict."""

    @abstractmethod
    def _decide(self) -> Verdict | None: ...


class FixedTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high`` by comparing one mean with a threshold.

    With ``worst_case`` answers the mean falls on the wrong side of the mid-point with probability at most ``beta``
    (Chernoff's bound with the mechanism's own moment generating function; for bits with the exact binomial's exponent).
    There is no verdict before all answers are in.

    Args:
        low, high: 0 < low < high < 1.
        beta: Failure probability of this test, in (0, 1). For T rounds, give each beta/T.
        size: Number of answers; by default the least that Chernoff's bound admits. For one that is given (the paper's
            N0) the threshold is the arithmetic mid-point, 3 alpha in Algorithms 2 and 4 of Kohen & Sheffet, and
            :func:`failure` bounds its error.
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float, size: int | None = None) -> None:
        evidences = gather(mechanism, low, high)
        if size is not None and size < 1:
            raise BadInput(f"a test needs at least 1 answer, found {size}")
        super().__init__(fixed_size(mechanism, low, high, beta) if size is None else size)
        self._threshold = evidences.middle if size is None else (low + high) / 2.0
        self._mechanism = mechanism

    def _decide(self) -> Verdict | None:
        if self.count < self.worst_case:
            return None
        mean = self.total / self.count
        if isinstance(self._mechanism, BitMechanism):
            truth = self._mechanism.truth
            mean = (mean - (1.0 - truth)) / (2.0 * truth - 1.0)
        return "above" if mean > self._threshold else "below"

    def next_batch(self, first: int) -> int:
        return max(0, self.worst_case - self.count)


class SequentialTest(LossTest):
    """Decide whether the loss on T is above ``low`` or below ``high``, looking after every batch.

    Whatever the loss is and whenever one looks, a false verdict has probability at most ``beta`` (Ville's inequality
    for two mixture e-processes; docs/corrections.md, "Sequential test"). If both hold (``low`` < loss < ``high``),
    either verdict is true. The test always ends by ``worst_case`` answers.

    Args:
        low, high, beta: As of :class:`FixedTest`.

    Examples:
        >>> from common.local.mechanisms.mechanism import Warner
        >>> test = SequentialTest(Warner(epsilon=1.0), low=0.16, high=0.32, beta=5e-5)
        >>> test.update(total=125, count=250)
        >>> test.verdict
        'above'
    """

    def __init__(self, mechanism: Mechanism, low: float, high: float, beta: float) -> None:
        super().__init__(worst_case(mechanism, low, high, beta))
        self._processes = gather(mechanism, low, high)
        self._needed = needed(beta)

    def reached(self) -> SequentialState:
        above, below = self._evidence()
        return SequentialState(self.count, self.worst_case, above, below, self._needed)

    def _evidence(self) -> tuple[float, float]:
        processes = self._processes
        return processes.above.log_value(self.total, self.count), processes.below.log_value(self.total, self.count)

    def _decide(self) -> Verdict | None:
        above, below = self._evidence()
        # If both nulls are rejected at once, "below" ends the run, with the same error probability.
        if below >= self._needed:
            return "below"
        if above >= self._needed:
            return "above"
        return None

    def next_batch(self, first: int) -> int:
        """Return ``first``, then half of the number received, up to ``worst_case`` in all; 0 after the verdict."""
        if self.verdict is not None:
            return 0
        size = first if self.count == 0 else max(1, -(-self.count // 2))
        return min(size, max(1, self.worst_case - self.count))
