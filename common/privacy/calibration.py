"""Planning for a budget: every search ends on the private side, on a value that was itself checked.

A plan is a sequence of (event, count); the whole plan is priced by :func:`common.privacy.budget.cost`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from common.core.errors import BadInput, BudgetExceeded
from common.numerics.bisection import guessed_least, least, least_near, lesser
from common.numerics.elementary import exp
from common.privacy.accountants import Plan
from common.privacy.budget import fits as plan_fits
from common.privacy.budget import share
from common.privacy.events import SubsampledRelease, SubsampledSteps
from common.privacy.rounding import up

MIN_SUPPORT = 10.0  # kappa n must be above it: mu is spread over at least that many records
PRECISION = 1 / 256
"""What only an accountant of seconds shows to be enough, people or noise, may be more than need be by this share."""
MOST = 1 << 50  # largest sample size or number of steps that a search considers


def enough(kappa: float) -> int:
    """Return the least number of people n with kappa n > :data:`MIN_SUPPORT`, in doubles as it is compared."""
    n = math.floor(MIN_SUPPORT / kappa)
    return n if kappa * n > MIN_SUPPORT else n + 1 if kappa * (n + 1) > MIN_SUPPORT else n + 2


def sampling_schedule(n: int, kappa: float, eta: float, rounds: int, before: int = 0) -> tuple[float, ...]:
    """Return the sampling bounds s_t >= TV(mu, mu') after t = before, ..., before + rounds - 1 reweighs, rounded up.

        s_t = min(e^{eta t} / (n - 1 + e^{eta t}), 1 / (kappa n))

    Log-weights are -eta times at most t losses in [0, 1], so any two weights have a ratio of at most e^{eta t}; the
    projection gives mu_i <= 1/(kappa n). Over records TV(mu, mu') = max(mu_i, mu'_i), for *unprojected* weights kept
    between rounds (docs/privacy.md, "The curator's draws").

    Args:
        kappa: Density, in (0, 1], with kappa n > 10.
        eta: Step of multiplicative weights, at least 0.
        before: Number of reweighs before the first of at least 1 ``rounds``.

    Raises:
        BadInput: If a number is out of range.
    """
    if not 0.0 < kappa <= 1.0 or not kappa * n > MIN_SUPPORT:
        few = f"n = {n:,} people are too few, {enough(kappa):,} would do: " if 0.0 < kappa <= 1.0 else ""
        raise BadInput(f"{few}kappa must be in (0, 1] with kappa n > {MIN_SUPPORT:g}, found {kappa} and n = {n}")
    if not 0.0 <= eta < math.inf or rounds < 1 or before < 0:
        raise BadInput(f"eta and before must be at least 0, rounds at least 1, found {eta}, {before} and {rounds}")
    cap = up(1.0 / (kappa * n))
    decay = exp(-eta * np.arange(before, before + rounds, dtype=np.float64))
    # An exponent of size x errs by x units; beyond 60 the cap, at most 1/10, is in force for n below 2^50.
    unbiased = 1.0 / (1.0 + (n - 1.0) * decay) * (1.0 + 256.0 * 2.0**-52)
    return tuple(np.minimum(unbiased, cap).tolist())


def steps_plan(schedule: Sequence[float], steps: int, ratio: float) -> Plan:
    """Plan ``steps`` noisy gradient steps in each round of the schedule, with u = ``ratio``."""
    return [
        (SubsampledSteps(count=steps, tv_bound=tv_bound, ratio=ratio), rounds)
        for tv_bound, rounds in Counter(schedule).items()
    ]


def release_plan(schedule: Sequence[float], draws: int, epsilon: float, delta: float) -> Plan:
    """Plan one (epsilon, delta)-DP learner call on ``draws`` draws in each round of the schedule."""
    return [
        (SubsampledRelease(draws=draws, tv_bound=tv_bound, epsilon=epsilon, delta=delta), rounds)
        for tv_bound, rounds in Counter(schedule).items()
    ]


def smallest_n(epsilon: float, delta: float, kappa: float, plan: Callable[[int], Plan]) -> int:
    """Return a sample size with kappa n > 10 whose plan fits: the smallest for the quick accountants, or a smaller one.

    Accountants that take seconds an answer are asked for one smaller by :data:`PRECISION`, and then for less.

    Args:
        plan: The plan as a function of n; its cost must not grow with n. The n returned fits in any case.

    Raises:
        BudgetExceeded: If no n up to 2^50 fits.
    """

    def fits(n: int, *, quick: bool = False) -> bool:
        return plan_fits(plan(n), epsilon, delta, quick=quick)

    first = math.floor(MIN_SUPPORT / kappa) + 1
    try:
        guess = guessed_least(lambda n: share(plan(n), epsilon, delta), 1.0, first, MOST)
        enough = least_near(partial(fits, quick=True), guess, first, MOST)
    except LookupError:
        try:
            return least(fits, first, MOST, PRECISION)
        except LookupError:
            raise BudgetExceeded(f"no sample size up to {MOST} fits ({epsilon:g}, {delta:g})") from None
    return lesser(fits, enough, first, PRECISION)
