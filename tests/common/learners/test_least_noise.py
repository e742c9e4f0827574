"""The search for the least noise: few questions, and the noise that more of them would find."""

from __future__ import annotations

from collections.abc import Callable

from common.learners.sgd import MIN_NOISE, _least, _least_noise
from common.privacy.calibration import PRECISION
from tests.tiers import for_each

Fits = Callable[[float, bool], bool]


def asking_at_every_step(fits: Fits) -> float:
    """The same search, which asks at each of the three steps down."""
    private = _least(lambda noise: fits(noise, True))
    while private > MIN_NOISE:
        lower = [max(private * (1.0 - step * PRECISION), MIN_NOISE) for step in (1.0, 4.0, 16.0, 64.0)]
        less = [noise for noise in lower[:3] if fits(noise, False)]
        if not less:
            return private
        private = less[-1]
        if len(less) == 3 and fits(lower[3], False):
            private = lower[3]
    return private


@for_each("slow", [0.05, 0.11, 0.5, 1.0, 1.8, 1.97, 1.9999, 2.0])
def test_fewer_questions_find_the_same_noise(slow):
    asked: dict[str, int] = {"few": 0, "all": 0}

    def answering(way: str) -> Fits:
        def fits(noise: float, quick: bool) -> bool:
            asked[way] += not quick
            return noise >= (2.0 if quick else slow)

        return fits

    assert _least_noise(answering("few")) == asking_at_every_step(answering("all"))
    assert asked["few"] <= asked["all"]


def test_where_the_slow_accountants_show_nothing_nearby_but_a_little_further_down_that_is_found():
    def fits(noise: float, quick: bool) -> bool:
        return noise >= 2.0 if quick else 1.5 <= noise < 2.0 * (1.0 - 8.0 * PRECISION)

    found = _least_noise(fits)
    assert fits(found, False)
    assert found < 1.52
