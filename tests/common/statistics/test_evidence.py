"""The worst case of the sequential test: what it adds for rounding, to the last answer."""

from __future__ import annotations

import math

import pytest

from common.local.mechanisms.mechanism import parse_mechanism
from common.statistics.evidence import gather, worst_case

WARNER = parse_mechanism({"name": "warner", "epsilon": 1.0})


@pytest.mark.parametrize(("room", "further"), [(1.6e-12, 1), (2.4e-12, 0)])
def test_the_worst_case_leaves_room_for_the_rounding_of_one_comparison(room: float, further: int) -> None:
    """Both ends of it: ln E is rounded down by 1e-12, and so is what an answer adds to it, and no more.

    beta is such that m answers have the evidence that is needed and ``room`` beside: 2e-12 of it are used.
    """
    found = gather(WARNER, 0.1, 0.2)
    loss = max(e.slack(3.0, 1.0) - e.slack(0.0, 0.0) for e in (found.above, found.below))
    m, rate = 2000, found.rate - loss
    beta = math.exp(-(m * rate - math.log(4.0) - room))
    assert worst_case(WARNER, 0.1, 0.2, beta) == m + 1 + further
