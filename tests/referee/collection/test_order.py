"""The committed order is a permutation, looks random, and its commitment hides and binds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from referee.collection import order as layers
from referee.collection.order import Order, commitment
from tests.tiers import for_each


@settings(max_examples=60, derandomize=True)
@given(st.integers(1, 3000), st.text(st.characters(exclude_characters="/:"), max_size=8))
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


@for_each("size", [0, -1, (1 << 32) + 1])
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


SEEDS = ("a", "a+share", "a/3:b", "a+x/3:b+y/7:c+z")


@for_each("seed", SEEDS)
def test_layers_are_read_as_they_are_written(seed):
    assert layers.write_layers(layers.read_layers(seed)) == seed


@for_each("seed", ["0:a", "a/b", "a/3:b/3:c", "a/5:b/3:c", "a/-1:b", "a/:b", "a/3:b:c", "a/12345678901:b"])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        layers.read_layers(seed)
    with pytest.raises(ValueError, match="seed"):
        Order(seed, 1 << 32)


def test_a_layer_behind_all_agents_is_refused():
    with pytest.raises(ValueError, match="begins behind its 3 agents"):
        Order("a/3:b", 3)


@settings(max_examples=40, derandomize=True)
@given(st.integers(2, 60), st.data())
def test_a_layer_leaves_whoever_was_asked_where_they_were(size, data):
    """The theorem of the layers: all of them are one permutation, in which positions before a layer are as below it."""
    starts = sorted(data.draw(st.sets(st.integers(1, size - 1), max_size=4)))
    seed = "first"
    for start in starts:
        above = layers.add_layer(seed, start, f"secret {start}")
        whole = Order(above, size).slice(0, size)
        assert sorted(whole) == list(range(size))
        assert np.array_equal(whole[:start], Order(seed, size).slice(0, start))
        assert np.array_equal(np.concatenate([Order(above, size).slice(i, 1) for i in range(size)]), whole)
        seed = above


def test_below_a_layer_nothing_tells_who_comes_first_above_it():
    # The same lower layer, 4000 secrets above it: who comes next among the 10 left over. As above.
    below = "published"
    left = sorted(Order(below, 16).slice(6, 10))
    nexts = [int(Order(layers.add_layer(below, 6, f"secret {i}"), 16).slice(6, 1)[0]) for i in range(4000)]
    counts = np.array([nexts.count(agent) for agent in left])
    assert counts.sum() == 4000
    assert float(((counts - 400) ** 2 / 400).sum()) < 40


def test_a_layer_that_nobody_was_asked_in_is_replaced():
    assert layers.add_layer("a", 0, "b") == "b"
    assert layers.add_layer("a/3:b", 3, "c") == "a/3:c"
    assert layers.add_layer("a/3:b", 5, "c") == "a/3:b/5:c"
