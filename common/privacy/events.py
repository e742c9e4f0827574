"""What a curator did to its sample, as frozen values: no cost and no sampling here, only the facts both need.

Neighbouring samples differ in one record by replacement; n is public. ``tv_bound`` is always an upper bound
s, good for every pair of neighbours, on the total variation between mu and mu' (1/(kappa n) at most; 1 if the
sample is used as it is).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from common.core.errors import BadMessage
from common.core.values import Value
from common.privacy.theorems.stopping import StoppingDistribution


class Event(Value):
    """One thing that was released; ``kind`` names its type, so that a stored event can be read back."""

    kind: str


class NoEvent(Event):
    """Nothing that depends on the sample was released."""

    kind: Literal["none"] = "none"


class NonPrivate(Event):
    """Something was released with no guarantee at all; it costs infinity."""

    kind: Literal["non-private"] = "non-private"


class SubsampledSteps(Event):
    """``count`` noisy gradient steps, each on a single fresh draw from mu, everything released.

    One step adds N(0, sigma^2 I) to the gradient at the draw, clipped to the L2 ball of radius L around 0 (a
    public centre; a bound on pairwise distances alone is not enough). It may depend on all earlier steps.

    Attributes:
        count: Number of steps.
        tv_bound: s: TV(mu, mu') <= s.
        ratio: u = 2 L / sigma, the diameter of the ball in units of the noise's standard deviation.
    """

    kind: Literal["subsampled-steps"] = "subsampled-steps"
    count: int = Field(ge=1)
    tv_bound: float = Field(gt=0, le=1)
    ratio: float = Field(gt=0)


class SubsampledRelease(Event):
    """The output of a learner that is (epsilon, delta)-DP (replace-one), given m independent draws from mu.

    A mechanism on the sample itself is a :class:`Release`.

    Attributes:
        draws: m, the number of independent draws.
        tv_bound: s: TV(mu, mu') <= s.
        epsilon, delta: The learner's guarantee for a data set of m records.
    """

    kind: Literal["subsampled-release"] = "subsampled-release"
    draws: int = Field(ge=1)
    tv_bound: float = Field(gt=0, le=1)
    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


class Release(Event):
    """The output of a mechanism on the sample itself that is (epsilon, delta)-DP (replace-one).

    Attributes:
        epsilon, delta: The mechanism's guarantee.
    """

    kind: Literal["release"] = "release"
    epsilon: float = Field(gt=0)
    delta: float = Field(default=0.0, ge=0, lt=1)


class Gaussian(Event):
    """``count`` adaptively chosen releases from the sample itself, each mu-GDP.

    Gaussian noise on a vector of which one record changes the L2 norm by at most ``mu`` standard deviations.

    Attributes:
        count: Number of releases.
        mu: Of each.
    """

    kind: Literal["gaussian"] = "gaussian"
    count: int = Field(default=1, ge=1)
    mu: float = Field(gt=0, le=1e6)


class PrivateSelection(Event):
    """The best of a secret random number of releases from the sample itself, by a score released with each.

    Attributes:
        mu: Each of the releases, together with its score, is mu-GDP.
        law: Of their number, which is never released.
    """

    kind: Literal["selected"] = "selected"
    mu: float = Field(gt=0, le=1e6)
    law: StoppingDistribution


_KINDS: dict[str, type[Event]] = {
    "none": NoEvent,
    "non-private": NonPrivate,
    "subsampled-steps": SubsampledSteps,
    "subsampled-release": SubsampledRelease,
    "release": Release,
    "gaussian": Gaussian,
    "selected": PrivateSelection,
}


def parse_event(wire: Any) -> Event:
    """Validate an event from its JSON form.

    Raises:
        BadMessage: If the kind is unknown or an attribute is wrong.
    """
    kind = wire.get("kind") if isinstance(wire, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadMessage(f"no privacy event is of kind {kind!r}; known: {', '.join(sorted(_KINDS))}")
    return _KINDS[kind].parse(wire)
