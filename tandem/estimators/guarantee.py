"""What a fitted estimator promises to the people whose data it saw."""

from __future__ import annotations

import math

from common.core.values import Value
from common.privacy.rounding import up


class Spending(Value):
    """What one fit may cost a person, by the part that the person plays in it.

    Attributes
    ----------
    epsilon, delta
        A person of the curator's sample: (epsilon, delta)-differential privacy of everything the curator releases.
    agent_epsilon
        A person who answers on their own: epsilon-local differential privacy of the one answer (delta is 0).
    people, agents
        How many there are of each; public.
    drawn
        Whether chance decides who plays which part: no population was given.
    """

    epsilon: float
    delta: float
    agent_epsilon: float
    people: int
    agents: int
    drawn: bool = False


class Guarantee(Value):
    """The privacy of all fits of one estimator object; neighbours replace one record, the numbers of people are public.

    Costs add up by basic composition: (sum of epsilon, sum of delta), rounded up. That is what somebody pays whose
    record is in every fit; for one who is in some of them it is less. Other objects (clones, the candidates of a grid
    search, the folds of a cross-validation) that saw the same people are not counted here: add theirs.

    Attributes
    ----------
    fits
        What each fit may cost, the first first. A fit that failed on the way counts.
    simulated
        Whether the randomness of some fit came from ``random_state``. Whoever knows or guesses that seed can undo
        the noise: then nothing here is promised to real people.
    assumptions
        What is taken for public, and so not protected.
    """

    fits: tuple[Spending, ...]
    simulated: bool
    assumptions: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        """The epsilon of a person of the curator's sample, over all fits."""
        return _sum([fit.epsilon for fit in self.fits])

    @property
    def delta(self) -> float:
        """The delta that goes with it."""
        return _sum([fit.delta for fit in self.fits])

    @property
    def agent_epsilon(self) -> float:
        """The epsilon of a person of the population, over all fits."""
        return _sum([fit.agent_epsilon for fit in self.fits])

    @property
    def anybody(self) -> tuple[float, float]:
        """The (epsilon, delta) of a person in every fit, whichever part they played in each."""
        return _sum([max(fit.epsilon, fit.agent_epsilon) for fit in self.fits]), self.delta

    def __str__(self) -> str:
        told = (
            f"({self.epsilon:g}, {self.delta:g})-DP for each of the curator's people, {self.agent_epsilon:g}-local DP "
            f"for each of the population's, in {len(self.fits)} fit{'s' if len(self.fits) > 1 else ''}"
        )
        return told + (": SIMULATED, the seed undoes it" if self.simulated else "")


def _sum(values: list[float]) -> float:
    return values[0] if len(values) == 1 else up(math.fsum(values))
