"""The privacy profile of each event that has one: what the accountants that work with profiles share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from common.core.errors import BadInput
from common.privacy.events import Event, Gaussian, NoEvent, Release, SubsampledRelease, SubsampledSteps
from common.privacy.theorems.composition import subsampled
from common.privacy.theorems.gaussian_dp import epsilon_of
from common.privacy.theorems.profiles import Profile, gaussian_profile, release_profile, step_profile


@lru_cache(maxsize=1 << 12)
def profile_of(event: Event) -> Profile:
    """Return the profile of *one* release of an event (of one of its ``count``).

    Raises:
        BadInput: If no profile is known for this kind of event.
    """
    if isinstance(event, SubsampledSteps):
        return step_profile(event.tv_bound, event.ratio)
    if isinstance(event, Gaussian):
        return gaussian_profile(event.mu)
    if isinstance(event, Release):
        return release_profile(event.epsilon, event.delta)
    if isinstance(event, SubsampledRelease):
        return release_profile(*subsampled(event.draws, event.tv_bound, event.epsilon, event.delta))
    raise BadInput(f"an event of kind {event.kind} has no privacy profile")


def leading(event: Event) -> float:
    """Return the mu^2 that an event tends to: the chi-squared of one release, times ``count``."""
    if isinstance(event, NoEvent):
        return 0.0
    if isinstance(event, Gaussian):
        return event.count * event.mu * event.mu
    return (event.count if isinstance(event, SubsampledSteps) else 1) * profile_of(event).chi_squared


def limit(plan: Iterable[tuple[Event, int]], delta: float) -> float:
    """Return the epsilon of a plan's envelopes if they were Gaussian: an estimate; 0 where there is none."""
    square = sum(count * _spread(event) for event, count in plan)
    return epsilon_of(math.sqrt(square), delta) if 0.0 < square < 1e12 and delta > 0.0 else 0.0


@lru_cache(maxsize=1 << 12)
def _spread(event: Event) -> float:
    """Return the chi-squared divergence of the envelope of an event, all of its ``count`` added."""
    if not isinstance(event, SubsampledSteps):
        return leading(event)
    profile = profile_of(event)
    losses = np.geomspace(1e-4, 60.0 * event.ratio + 4.0, 400) * event.tv_bound * min(event.ratio, 1.0)
    values = profile.at(losses) * np.exp(-losses / 2.0) * np.cosh(1.5 * losses)
    return event.count * 4.0 * float(np.trapezoid(values, losses))
