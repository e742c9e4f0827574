"""The buckets of local hashing, at their borders: what an agent answers is what the referee counts."""

from __future__ import annotations

import numpy as np
import pytest

from common.local.mechanisms import olh
from tests.tiers import for_each


@for_each("buckets", [2, 3, 4, 7, 21])
@for_each("long", [False, True])
def test_buckets_meet_without_gap_or_overlap(monkeypatch: pytest.MonkeyPatch, buckets: int, long: bool) -> None:
    # The public word is made the hash itself, in 32 bits: two factors are 0, the summand is the word.
    monkeypatch.setattr(olh, "word", lambda public, place: np.uint64(public << 32 if place == 2 else 0))
    borders = [-(-(y << 32) // buckets) + step for y in range(buckets + 1) for step in (-1, 0, 1)]
    hashes = [border for border in borders if 0 <= border < 1 << 32]
    nothing, answers = np.zeros(1, dtype=np.uint64), np.empty(len(hashes), dtype=np.uint64)
    olh._hash.plain(np.zeros(len(hashes), dtype=np.uint64), hashes, buckets, answers)  # type: ignore[attr-defined]
    assert answers.tolist() == [(value * buckets) >> 32 for value in hashes]
    for value, answer in zip(hashes, answers, strict=True):
        supported = []
        for bucket in range(buckets):
            counts = np.zeros(1, dtype=np.int64)
            told = np.array([bucket], dtype=np.uint8)
            with np.errstate(over="ignore"):  # a hash below the bucket wraps around, as it is to
                olh._count.plain(told, [value], buckets, nothing, nothing, long, counts)  # type: ignore[attr-defined]
            supported.append(int(counts[0]))
        assert supported == [int(bucket == answer) for bucket in range(buckets)]


@pytest.mark.parametrize("high", [0, 1 << 40])
def test_an_answer_supports_the_items_that_its_hash_sends_to_its_bucket_however_long_they_are(high: int) -> None:
    mechanism, publics = olh.LocalHashing(epsilon=1.5), np.arange(60, dtype=np.uint64)
    items = np.uint64(high) + np.array([0, 1, 7, 1 << 31], dtype=np.uint64)
    hashed = np.empty((len(items), len(publics)), dtype=np.uint64)
    for item, buckets in zip(items, hashed, strict=True):
        olh._hash(np.full(len(publics), item), publics, mechanism.buckets, buckets)
    expected = (hashed == hashed[0]).sum(axis=1)
    found = mechanism.supports(hashed[0].astype(np.uint8), 1 << 48, publics, items)
    assert found.tolist() == expected.tolist()
    assert found[0] == len(publics) > max(found[1:])
