"""The committed order is a permutation, looks random, and its commitment hides and binds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referee.collection.order import Order, commitment


@settings(max_examples=60, derandomize=True)
@given(st.integers(1, 3000), st.text(max_size=8))
def test_every_agent_comes_exactly_once(size, seed):
    assert sorted(Order(seed, size).slice(0, size)) == list(range(size))


@settings(max_examples=40, derandomize=True)
@given(st.integers(1, 500), st.data())
def test_slices_are_parts_of_one_order(size, data):
    cut = data.draw(st.integers(0, size))
    order = Order("seed", size)
    whole = order.slice(0, size)
    assert np.array_equal(np.concatenate([order.slice(0, cut), order.slice(cut, size)]), whole)


def test_it_needs_no_memory_at_full_size():
    order = Order("seed", 1 << 32)
    found = order.slice((1 << 32) - 5, 100)
    assert len(found) == 5
    assert found.min() >= 0
    assert found.max() < 1 << 32


@pytest.mark.parametrize("size", [0, -1, (1 << 32) + 1])
def test_sizes_outside_are_refused(size):
    with pytest.raises(ValueError, match="size must be in"):
        Order("seed", size)


def test_first_places_are_uniform():
    # 4000 orders of 10 agents: who comes first. Chi-squared (9 degrees) passes 40 with chance 8e-6; seeded.
    firsts = np.array([Order(f"seed {i}", 10).slice(0, 1)[0] for i in range(4000)])
    counts = np.bincount(firsts, minlength=10)
    assert float(((counts - 400) ** 2 / 400).sum()) < 40


def test_another_seed_is_another_order_and_another_commitment():
    assert not np.array_equal(Order("a", 1000).slice(0, 1000), Order("b", 1000).slice(0, 1000))
    assert commitment("a") != commitment("b")
    assert commitment("a") == commitment("a")
    assert "a" * 10 not in commitment("a" * 10)
