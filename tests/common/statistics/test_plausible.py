"""Answers that no honest agents give are told from those that they do, hardly ever by mistake."""

from __future__ import annotations

import math

from scipy import stats

from common.local.mechanisms.none import NoMechanism
from common.local.mechanisms.warner import Warner
from common.statistics.evidence import FALSE_ALARM, implausible
from tests.tiers import for_each

COUNTS = [1, 2, 5, 20, 100, 1_000, 60_000]


@for_each("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0, 30.0])
@for_each("count", COUNTS)
def test_a_false_alarm_is_as_rare_as_the_theorem_says(epsilon: float, count: int) -> None:
    """The chances are exact tails; between the ends of a probability it is rarest to see few ones at the lower end."""
    mechanism = Warner(epsilon=epsilon)
    few = [ones for ones in range(count + 1) if implausible(mechanism, ones, count) and 2 * ones < count]
    many = [ones for ones in range(count + 1) if implausible(mechanism, ones, count) and 2 * ones >= count]
    assert few == list(range(len(few)))
    assert [count - ones for ones in reversed(many)] == few  # a lie that is mirrored is as implausible
    chance = stats.binom.logcdf(len(few) - 1, count, 1.0 - mechanism.truth) if few else -math.inf
    assert chance <= math.log(FALSE_ALARM / 2.0)


@for_each(("epsilon", "count"), [(0.5, 100), (1.0, 150), (3.0, 700)])
def test_all_that_is_left_when_ones_are_thrown_away_is_noticed(epsilon: float, count: int) -> None:
    mechanism = Warner(epsilon=epsilon)
    assert implausible(mechanism, 0, count)
    assert implausible(mechanism, count, count)
    assert not implausible(mechanism, count // 2, count)


def test_without_randomization_everything_is_plausible() -> None:
    assert not implausible(NoMechanism(), 0, 10**9)
    assert not implausible(NoMechanism(), 10**9, 10**9)
    assert not implausible(Warner(epsilon=1.0), 0, 0)
