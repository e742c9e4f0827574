"""My item: bits in their order, prefixes by slot, and what is no item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from common.core.errors import BadMessage
from common.local.queries.item import ItemQuery
from common.local.queries.query import parse_query
from common.local.records import Records
from tests.tiers import for_each


def holders(items: list[int], bits: int, first: int = 0, dtype: Any = np.uint8, spare: int = 0) -> Records:
    """People whose features from ``first`` on are the bits of these items, written down digit by digit."""
    rows = [[int(digit) for digit in f"{item:0{bits}b}"] for item in items]
    features = np.ones((len(items), first + bits + spare), dtype=dtype)
    features[:, first : first + bits] = rows
    return Records(features, np.ones(len(items), dtype=np.int8))


def asked(records: Records, **settings: Any) -> list[int]:
    query = ItemQuery(**settings)
    return query.evaluate(records.only(query.columns), np.arange(len(records))).tolist()


@for_each("dtype", [np.uint8, np.float32])
@for_each(("first", "spare"), [(0, 0), (3, 0), (0, 2), (70, 5)])
@for_each("bits", [1, 2, 7, 8, 33, 63, 64])
def test_features_are_the_bits_of_an_item_most_significant_first(bits: int, first: int, spare: int, dtype: Any) -> None:
    items = sorted({0, 1, (1 << bits) - 1, 1 << (bits - 1), 0x5555555555555555 >> (64 - bits)})
    records = holders(items, bits, first, dtype, spare)
    assert asked(records, bits=bits, first=first) == items
    query = ItemQuery(bits=bits, first=first)
    assert (query.domain, query.min_features, query.lengths) == (1 << bits, first + bits, (bits,))


def test_features_above_zero_are_ones() -> None:
    features = np.array([[-1.0, 1e-30, 0.0, 0.3], [-0.0, 2.0, -3e38, 3e38]], dtype=np.float32)
    assert asked(Records(features, np.ones(2, dtype=np.int8)), bits=4) == [0b0101, 0b0101]


def test_slots_take_turns_with_the_prefixes() -> None:
    item = 0b1011001
    records = holders([item] * 8, 7)
    query = ItemQuery(bits=7, prefixes=(1, 7, 4))
    assert query.domain == 1 << 7
    assert query.evaluate(records, np.arange(8)).tolist() == [1, item, 0b1011, 1, item, 0b1011, 1, item]
    assert query.evaluate(records, np.full(8, 5)).tolist() == [0b1011] * 8
    assert query.evaluate(records, np.full(8, (1 << 32) - 1)).tolist() == [1] * 8


def test_prefixes_of_the_longest_items() -> None:
    item = 0x9E3779B97F4A7C15
    records = holders([item] * 64, 64)
    query = ItemQuery(bits=64, prefixes=tuple(range(1, 65)))
    assert query.domain == 1 << 64
    assert query.evaluate(records, np.arange(64)).tolist() == [item >> (64 - length) for length in range(1, 65)]


def test_the_domain_is_that_of_the_longest_prefix() -> None:
    query = ItemQuery(bits=64, prefixes=(3, 10, 3))
    assert query.domain == 1 << 10
    assert query.min_features == 64


def test_public_randomness_changes_no_item() -> None:
    records = holders([5, 2], 3)
    assert asked(records, bits=3, public=(1 << 63) - 1) == asked(records, bits=3) == [5, 2]


def test_nobody_at_all_has_no_items() -> None:
    assert asked(holders([3], 2).take(np.empty(0, dtype=np.int64)), bits=2) == []


@for_each(
    ("wrong", "why"),
    [
        ({"bits": 0}, "greater than or equal to 1"),
        ({"bits": 65}, "less than or equal to 64"),
        ({"bits": 4, "prefixes": [5]}, "a prefix of 5 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [4, 0]}, "a prefix of 0 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [-1]}, "a prefix of -1 bits is none of an item of 4"),
        ({"bits": 4, "prefixes": [1] * 65}, "at most 64 items"),
        ({"bits": 4, "prefixes": [1.5]}, "integer"),
        ({"bits": 4, "first": -1}, "greater than or equal to 0"),
        ({"bits": 4, "first": (1 << 20) + 1}, "less than or equal to 1048576"),
        ({"bits": 4, "public": -1}, "greater than or equal to 0"),
        ({"bits": 4, "public": 1 << 63}, "less than"),
        ({}, "must be given"),
    ],
    ids=str,
)
def test_what_is_no_item_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        parse_query({"kind": "item", **wrong})
