"""The game of the adaptive adversary: what it reaches with one pair is known, and with more it is no less."""

from __future__ import annotations

import pytest

from benchmarks.adaptive_pair import value, ways
from common.privacy.theorems.gaussian_dp import delta_of


def test_full_draws_of_one_pair_are_gaussian_releases() -> None:
    found = value(1.0, [(0.0, 0.1, 0.0)], 25, 0.5, 0.005)
    assert found == pytest.approx(delta_of(0.5, 0.5), rel=0.01)


def test_more_pairs_reach_no_less_and_little_more() -> None:
    one, most = (value(0.05, ways(0.5)[name], 40, 0.3, 0.01) for name in ("forth", "adaptive"))
    assert 0.0 < one <= most * (1.0 + 1e-9) < 1.2 * one
