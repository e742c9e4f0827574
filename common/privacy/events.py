"""Privacy events: a curator's releases as frozen values; and bounds on the distance of drawn noise from priced noise.

Neighbouring samples differ in one record by replacement; n is public. ``tv_bound`` is always an upper bound s, for
every pair of neighbours, on the total variation between mu and mu' (at most 1/(kappa n); 1 for the sample itself).

Accountants price the exact Gaussian mechanism. Each number of its noise is drawn from tables whose law is within tau of
the exact one in total variation (:data:`NUMBER`; :mod:`curator.mechanisms.gaussian_noise` proves it); all other noise
is exact. So the releases of a run are within T = sum of tau of those of the exact mechanisms, for any adaptive choices.
If the exact run is (epsilon, delta)-DP, the real one is (epsilon, delta + (1 + e^epsilon) T)-DP, since P~(S) <= P(S) +
T <= e^epsilon P'(S) + delta + T <= e^epsilon P~'(S) + delta + (1 + e^epsilon) T.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from common.core.errors import BadMessage, BadScenario
from common.core.values import Value
from common.privacy.rounding import MAX_EPSILON, down, up
from common.privacy.theorems.selection import StoppingDistribution


class Event(Value):
    """One release; ``kind`` names its type, so that a stored event can be read back."""

    kind: str


class NoEvent(Event):
    """Nothing that depends on the sample was released."""

    kind: Literal["none"] = "none"


class NonPrivate(Event):
    """Something was released with no guarantee at all; it costs infinity."""

    kind: Literal["non-private"] = "non-private"


class SubsampledSteps(Event):
    """``count`` noisy gradient steps, each on a single fresh draw from mu, TV(mu, mu') <= s, everything released.

    One step adds N(0, sigma^2 I) to the gradient at the draw, clipped to the L2 ball of radius L around 0 (a public
    centre; a bound on pairwise distances alone is not enough). It may depend on all earlier steps. ``ratio`` is u = 2 L
    / sigma, the diameter of the ball in units of the noise's standard deviation.
    """

    kind: Literal["subsampled-steps"] = "subsampled-steps"
    count: int = Field(ge=1)
    tv_bound: float = Field(gt=0, le=1)
    ratio: float = Field(gt=0)


class SubsampledRelease(Event):
    """The output of a learner that is (epsilon, delta)-DP (replace-one), given m draws from mu, TV(mu, mu') <= s.

    The guarantee is for a data set of m records. A mechanism on the sample itself is a :class:`Release`.
    """

    kind: Literal["subsampled-release"] = "subsampled-release"
    draws: int = Field(ge=1)
    tv_bound: float = Field(gt=0, le=1)
    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


class Release(Event):
    """The output of a mechanism on the sample itself that is (epsilon, delta)-DP (replace-one)."""

    kind: Literal["release"] = "release"
    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


class Gaussian(Event):
    """``count`` adaptively chosen releases from the sample itself, each mu-GDP.

    Each is a vector with Gaussian noise that one record moves by at most ``mu`` standard deviations in L2 norm.
    """

    kind: Literal["gaussian"] = "gaussian"
    count: int = Field(default=1, ge=1)
    mu: float = Field(gt=0, le=1e6)


class PrivateSelection(Event):
    """The best of a secret random number of releases from the sample itself, by a score released with each.

    Each, score included, is mu-GDP; ``law`` is the law of their number, which is never released.
    """

    kind: Literal["selected"] = "selected"
    mu: float = Field(gt=0, le=1e6)
    law: StoppingDistribution


class Composed(Event):
    """Releases of different kinds in one operation, each of which may depend on those before it.

    Composition is adaptive for all accountants, so the whole costs as much as its parts as separate events.
    """

    kind: Literal["composed"] = "composed"
    parts: tuple[Annotated[Gaussian | SubsampledSteps, Field(discriminator="kind")], ...] = Field(
        min_length=2, max_length=8
    )


_KINDS: dict[str, type[Event]] = {
    kind.model_fields["kind"].default: kind
    for kind in (NoEvent, NonPrivate, SubsampledSteps, SubsampledRelease, Release, Gaussian, PrivateSelection, Composed)
}


def parts_of(event: Event) -> tuple[Event, ...]:
    """Return the events of which an event is composed; accountants know the cost of these."""
    return event.parts if isinstance(event, Composed) else (event,)


def parse_event(wire: Any) -> Event:
    """Validate an event from its JSON form; BadMessage if the kind is unknown or an attribute is wrong."""
    kind = wire.get("kind") if isinstance(wire, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadMessage(f"no privacy event is of kind {kind!r:.80}; known: {', '.join(sorted(_KINDS))}")
    return _KINDS[kind].parse(wire)


NUMBER = Fraction(1, 1 << 180)
"""Bound on the total variation between one number of Gaussian noise as drawn and as priced."""
COORDINATES, NUMBERS = 1 << 30, 1 << 50
"""Maximum count of noise numbers in one step's vector and in one Gaussian release (:func:`check_numbers`)."""
ALLOWANCE = 1 << 10


def check_numbers(event: Event, numbers: int) -> None:
    """Refuse an event of which a step, or a release, draws more Gaussian numbers than :func:`sampling_error` counts.

    Raises BadScenario if ``numbers``, the count for one step or release, is greater; nothing was charged.
    """
    kinds = [type(part) for part in parts_of(event)]
    if not any(issubclass(kind, SubsampledSteps | Gaussian | PrivateSelection) for kind in kinds):
        return
    most, release = (COORDINATES, "a noisy step") if SubsampledSteps in kinds else (NUMBERS, "a Gaussian release")
    if numbers > most:
        raise BadScenario(
            f"{release} would draw {numbers:,} numbers of noise; delta pays for {most:,} of them at most. Nothing was "
            f"charged: take fewer features, people or iterations"
        )


def sampling_error(event: Event) -> Fraction:
    """Return a bound on the total variation between an event as drawn and as priced."""
    if isinstance(event, Composed):
        return sum(map(sampling_error, event.parts), Fraction(0))
    if isinstance(event, SubsampledSteps):
        return event.count * COORDINATES * NUMBER
    if isinstance(event, Gaussian):
        return event.count * NUMBERS * NUMBER
    if isinstance(event, PrivateSelection):
        return event.law.most * NUMBERS * NUMBER
    return Fraction(0)


def error_paid(plan: Iterable[tuple[Event, int]]) -> Fraction:
    """Return the error a plan pays for: :data:`ALLOWANCE` times its own, as actual events may be smaller and more."""
    return ALLOWANCE * sum((times * sampling_error(event) for event, times in plan), Fraction(0))


def delta_left(delta: float, epsilon: float, error: Fraction) -> float:
    """Return the part of delta that is left for the exact mechanisms; negative if nothing is left.

    1 + e^epsilon is rounded up to a power of two, so that close epsilons give the same value.
    """
    if error == 0:
        return delta
    if not epsilon < MAX_EPSILON:
        return -math.inf
    factor = 1 << math.ceil(up(math.log2(1.0 + math.exp(epsilon))))
    return down(delta - up(float(factor * error)))


def payable(delta: float, error: Fraction) -> float:
    """Return the largest epsilon, to a factor of 2 of e^epsilon, at which the error takes at most half of delta; or 0.

    A budget with a larger epsilon may be opened at this one, since a smaller epsilon is a stronger claim.
    """
    if error == 0:
        return MAX_EPSILON
    power = math.floor(down(math.log2(delta / 2.0) - up(math.log2(error)))) if delta / 2.0 > 0.0 else 0
    return min((1.0 - 1e-9) * math.log(2.0**power - 1.0), MAX_EPSILON) if power > 1 else 0.0
