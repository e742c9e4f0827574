"""The buckets of local hashing, at their borders: what an agent answers is what the referee counts."""

from __future__ import annotations

import numpy as np
import pytest

from common.vocabulary.mechanisms import olh


@pytest.mark.parametrize("buckets", [2, 3, 4, 7, 21])
@pytest.mark.parametrize("long", [False, True])
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
