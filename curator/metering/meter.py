"""What is left of a charged event, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

from common.privacy.events import (
    Event,
    Gaussian,
    NonPrivate,
    PrivateSelection,
    Release,
    SubsampledRelease,
    SubsampledSteps,
)


class Overdrawn(RuntimeError):
    """Code that was given an access asked for more than the charged event pays for. Nothing of it is released."""


class Meter:
    """What one charged event pays for, less what was taken.

    Mechanisms on the same data add up (basic composition): epsilons and deltas of (epsilon, delta)-DP ones, mu^2 of
    Gaussian ones (Dong, Roth and Su 2022, Corollary 3.3). Sums are exact fractions, so no rounding lets anything
    through. A call that is refused takes nothing, and the meter remembers that there was one.

    Args:
        event: What was charged.

    Attributes:
        spoilt: Whether more was asked for, or a mechanism failed half-way: then nothing may be released.
    """

    def __init__(self, event: Event) -> None:
        self.event = event
        self.spoilt = False
        self._draws = event.draws if isinstance(event, SubsampledRelease) else 0
        self._steps = event.count if isinstance(event, SubsampledSteps) else 0
        self._selections = int(isinstance(event, PrivateSelection))
        self._epsilon = self._delta = self._square = Fraction(0)
        if isinstance(event, Release | SubsampledRelease):
            self._epsilon, self._delta = Fraction(event.epsilon), Fraction(event.delta)
        if isinstance(event, Gaussian):
            self._square = event.count * Fraction(event.mu) ** 2

    @property
    def free(self) -> bool:
        """Whether the event pays for everything, as it promises nothing."""
        return isinstance(self.event, NonPrivate)

    @property
    def whole_sample(self) -> bool:
        """Whether it pays for a mechanism on everybody: Release, Gaussian, PrivateSelection, or tv_bound = 1."""
        if isinstance(self.event, SubsampledRelease):
            return self.event.tv_bound == 1.0
        return self.free or isinstance(self.event, Release | Gaussian | PrivateSelection)

    def refuse(self, what: str) -> Overdrawn:
        """Return the error to raise, and remember that there was one."""
        self.spoilt = True
        return Overdrawn(f"the event {self.event.wire()} does not pay for {what}")

    def everybody(self) -> None:
        """Take a mechanism's look at the whole sample.

        Raises:
            Overdrawn: If only draws are paid for, or nothing is.
        """
        if not self.whole_sample:
            raise self.refuse("a mechanism on the sample itself")

    def draws(self, count: int) -> None:
        """Take so many draws from mu.

        Raises:
            Overdrawn: If so many are not left.
        """
        if self.free:
            return
        if not 1 <= count <= self._draws:
            raise self.refuse(f"{count} draws: {self._draws} are left")
        self._draws -= count

    def steps(self, count: int, ratio: Fraction) -> None:
        """Take so many noisy steps, whose clipped gradients lie in a ball of diameter ``ratio`` times sigma.

        Raises:
            Overdrawn: If so many are not left, or the noise is less, or the clip larger, than was declared.
        """
        if self.free:
            return
        if not isinstance(self.event, SubsampledSteps):
            raise self.refuse("noisy steps")
        if not 1 <= count <= self._steps:
            raise self.refuse(f"{count} steps: {self._steps} are left")
        if ratio > Fraction(self.event.ratio):
            raise self.refuse(f"a clip of {float(ratio / 2):.6g} standard deviations of the noise")
        self._steps -= count

    def selection(self) -> None:
        """Take the one private selection.

        Raises:
            Overdrawn: If none was declared, or it was made already.
        """
        if not self._selections:
            raise self.refuse("a private selection")
        self._selections -= 1

    def mechanism(self, price: Event) -> None:
        """Take a mechanism with this guarantee for the data that it is given.

        Raises:
            Overdrawn: If it costs more than is left, or is of another kind than was declared.
        """
        if self.free:
            return
        if isinstance(price, Release) and isinstance(self.event, Release | SubsampledRelease):
            epsilon, delta = self._epsilon - Fraction(price.epsilon), self._delta - Fraction(price.delta)
            if epsilon < 0 or delta < 0:
                raise self.refuse(
                    f"epsilon {price.epsilon:g} and delta {price.delta:g}: "
                    f"{float(self._epsilon):g} and {float(self._delta):g} are left"
                )
            self._epsilon, self._delta = epsilon, delta
        elif isinstance(price, Gaussian) and isinstance(self.event, Gaussian):
            square = self._square - price.count * Fraction(price.mu) ** 2
            if square < 0:
                raise self.refuse(f"{price.count} times {price.mu:g}-GDP: mu^2 = {float(self._square):g} is left")
            self._square = square
        else:
            raise self.refuse(f"a mechanism that costs {price.wire()}")
