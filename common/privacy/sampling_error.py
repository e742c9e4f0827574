"""By how much what is drawn may differ from what is priced, and what that adds to delta.

Accountants price the exact Gaussian mechanism. Its noise is drawn from tables whose law is within tau of the exact one,
in total variation, for each number (:data:`NUMBER`; :mod:`curator.numerics.gaussian_noise` proves it). The noise of
everything else is drawn exactly as its theorem has it, to the last bit, and adds nothing.

Everything that a run releases is then within T = sum of tau of what the exact mechanisms would have released, whatever
is chosen adaptively: couple each number with the exact one; they differ with probability tau at most. If the exact run
is (epsilon, delta)-DP, then for all neighbours and events

    P~(S) <= P(S) + T <= e^epsilon P'(S) + delta + T <= e^epsilon P~'(S) + delta + (1 + e^epsilon) T,

so the real run is (epsilon, delta + (1 + e^epsilon) T)-DP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from common.core.errors import BadScenario
from common.privacy.events import Event, Gaussian, PrivateSelection, SubsampledSteps
from common.privacy.rounding import MAX_EPSILON, down, up

NUMBER = Fraction(1, 1 << 180)
"""Bound on the total variation between one number of Gaussian noise as it is drawn and as it is priced."""
COORDINATES = 1 << 30
"""Most coordinates of one step's vector of noise; so many 16-bit numbers take 2 GiB.
:func:`check_numbers` refuses more."""
NUMBERS = 1 << 50
"""Most numbers of noise that one Gaussian release is made of; to draw so many takes weeks. More are refused as well."""
ALLOWANCE = 1 << 10


def check_numbers(event: Event, numbers: int) -> None:
    """Refuse an event whose steps, or releases, draw more numbers of Gaussian noise than :func:`sampling_error` counts.

    Args:
        numbers: Bound on the numbers of one step's vector; of one release, with all that is drawn for it.

    Raises:
        BadScenario: If they are more than :data:`COORDINATES` or :data:`NUMBERS`; nothing was charged.
    """
    if isinstance(event, SubsampledSteps):
        most, what = COORDINATES, "a noisy step"
    elif isinstance(event, Gaussian | PrivateSelection):
        most, what = NUMBERS, "a Gaussian release"
    else:
        return
    if numbers > most:
        raise BadScenario(
            f"{what} would draw {numbers:,} numbers of noise; delta pays for {most:,} of them at most. Nothing was "
            f"charged: take fewer features, people or iterations"
        )


def sampling_error(event: Event) -> Fraction:
    """Return a bound on the total variation between an event as it happens and as it is priced."""
    if isinstance(event, SubsampledSteps):
        return event.count * COORDINATES * NUMBER
    if isinstance(event, Gaussian):
        return event.count * NUMBERS * NUMBER
    if isinstance(event, PrivateSelection):
        return event.law.most * NUMBERS * NUMBER
    return Fraction(0)


def error_paid(plan: Iterable[tuple[Event, int]]) -> Fraction:
    """Return what a plan pays for: :data:`ALLOWANCE` times its own error, for events that may be smaller and more."""
    return ALLOWANCE * sum((times * sampling_error(event) for event, times in plan), Fraction(0))


def delta_left(delta: float, epsilon: float, error: Fraction) -> float:
    """Return what of delta is left for the exact mechanisms; negative if nothing is.

    1 + e^epsilon is rounded up to a power of two, so that it is the same for all epsilons close to each other.
    """
    if error == 0:
        return delta
    if not epsilon < MAX_EPSILON:
        return -math.inf
    factor = 1 << math.ceil(up(math.log2(1.0 + math.exp(epsilon))))
    return down(delta - up(float(factor * error)))


def payable(delta: float, error: Fraction) -> float:
    """Return the largest epsilon, to a factor of 2 of e^epsilon, at which the error takes at most half of delta; or 0.

    A budget of a larger epsilon may be opened at this one: (epsilon, delta)-DP is a weaker claim the larger epsilon is.
    """
    if error == 0:
        return MAX_EPSILON
    power = math.floor(down(math.log2(delta / 2.0) - up(math.log2(error)))) if delta > 0.0 else 0
    return min((1.0 - 1e-9) * math.log(2.0**power - 1.0), MAX_EPSILON) if power > 1 else 0.0
