"""The measurement of the theorems: its teachers have the law that they should have, its settings the theorems' form."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import model_agnostic as bench
from benchmarks.model_agnostic import V, accounting, measured, setting, teachers


def direct(n: int, chunks: int, draw: np.random.Generator) -> np.ndarray:
    """Return the midpoints of teachers of real records."""
    kinds, chunk, x = draw.integers(0, V, n), draw.integers(0, chunks, n), draw.uniform(size=n)
    found = np.empty((V, chunks))
    for kind in range(V):
        for j in range(chunks):
            own = x[(kinds == kind) & (chunk == j)]
            found[kind, j] = (own[own <= 0.5].max(initial=0.0) + own[own > 0.5].min(initial=1.0)) / 2.0
    return found


def test_teachers_have_the_law_of_those_that_learn_from_records():
    draw = np.random.default_rng(1)
    drawn, learned = teachers(8000, 100, 0.0, draw), direct(8000, 100, draw)
    minimizers = teachers(8000, 100, 1e-12, draw)  # by counting mistakes, which nobody makes
    errors = [np.abs(found - 0.5).mean() for found in (drawn, learned, minimizers)]
    assert errors[0] == pytest.approx(V * 100 / (2 * 8000), rel=0.15)
    assert errors[1] == pytest.approx(errors[0], rel=0.12)
    assert errors[2] == pytest.approx(errors[0], rel=0.15)


def test_settings_are_fixed_points_of_the_theorem():
    one, ten = setting("sparse-vector", 1e8, 1000, 0.0), setting("sparse-vector", 1e8, 10_000, 0.0)
    assert one is not None
    assert ten is not None
    assert one.cutoff < ten.cutoff
    assert one.chunks < ten.chunks
    assert setting("sparse-vector", 1e5, 100_000, 0.0) is None


def test_rates_stay_below_their_bounds():
    row = measured("realizable, against m", "sparse-vector", 1e8, 3000, 0.0, 2)
    assert row is not None
    assert row.rate <= row.bound == row.cutoff / 3000
    noisy = measured("agnostic, against m", "gnmax", 1e5, 100, 0.01, 2)
    assert noisy is not None
    assert noisy.rate < 0.1
    assert measured("realizable, against m", "gnmax", 1e4, 100_000, 0.0, 1) is None


def test_the_exact_accountant_is_below_renyi_everywhere():
    rows = list(accounting())
    assert all(row["gdp"] < row["rdp"] < 1.2 * row["gdp"] for row in rows)


def test_a_figure_is_drawn(tmp_path, monkeypatch):
    plans = {"realizable, against m": ([(1e7, 100), (1e7, 300)], 0.0)}
    monkeypatch.setattr(bench, "PLANS", plans)
    found = list(bench.rates(1))
    assert len(found) == 6
    bench.draw(found, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
