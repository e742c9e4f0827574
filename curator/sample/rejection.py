"""Proposals and their acceptance, within one shard: chances by score, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from common.core.arrays import AnyArray, Indices, Words
from common.local.records import Records
from common.numerics.kernels import njit, prefetch

STEP = 512  # records that share one entry of the table of :func:`stack`, and are gone through to find one of them
_AHEAD = 64
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@dataclass(frozen=True, repr=False, eq=False)
class AcceptanceTable:
    """With which chance a proposed record is accepted, by its score, in 64-bit words.

    Scores below ``base`` have the first limit, scores beyond the last level the last.

    Attributes:
        base: Score that the first limit is for.
        limits: Shape (levels,), uint64, ascending: a proposal is accepted if a uniform word is at most the limit.
        heights: Shape (levels,), int64, positive: how often each record is proposed, relative to others. None: all
            alike.
    """

    base: int
    limits: Words
    heights: Indices | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Picked:
    """What became of a batch of proposals.

    Attributes:
        places: Which proposals of the batch were accepted, ascending.
        rows, records: The number of each accepted record in the whole sample, and itself, where that was asked for.
        undecided: How many proposals tie with their limit in the first 32 bits, and were left out because no further
            word was given for them.
    """

    places: Indices
    rows: Indices
    records: Records | None
    undecided: int


@njit
def level(cumulative_loss: Any, base: Any, last: Any) -> Any:
    """Return which entry of the chances' tables belongs to a score."""
    return max(min(np.int64(cumulative_loss) - base, last), 0)


@njit
def accept(
    words: Words,
    ties: Words,
    size: int,
    first: int,
    cumulative_losses: AnyArray,
    base: int,
    limits: Words,
    places: Indices,
    rows: Indices,
) -> tuple[int, int]:
    """Accept or reject one uniformly proposed record a word; return how many are accepted and undecided.

    The low half of the word picks one of all ``size`` records (Lemire's exact multiply-and-shift); those in this shard,
    which begins at ``first``, are its business. The high half is compared with the high half of the record's limit; in
    the 2^-32 of cases where these are equal, the high half of ``ties`` (one word a proposal, or none at all) decides.
    Limits ascend with the score. Below the first of them every record is accepted: its score, which takes longer to get
    from memory than all else, is not looked at.
    """
    n = np.uint64(size)
    biased = (np.uint64(1) << _32) % n
    count, last = len(cumulative_losses), len(limits) - 1
    least = limits[0] >> _32
    found: Any = 0
    undecided = 0
    for k in range(len(words)):
        if k + _AHEAD < len(words) and (words[k + _AHEAD] >> _32) >= least:
            prefetch(cumulative_losses, np.int64(((words[k + _AHEAD] & _LOW) * n) >> _32) - first)
        product = (words[k] & _LOW) * n
        row = np.int64(product >> _32) - first
        if row < 0 or row >= count or (product & _LOW) < biased:
            continue
        high = words[k] >> _32
        if high < least:
            places[found] = k
            rows[found] = row
            found += 1
            continue
        limit = limits[level(cumulative_losses[row], base, last)]
        accepted = high < (limit >> _32)
        if high == (limit >> _32):
            if len(ties) == 0:
                undecided += 1
            else:
                accepted = (ties[k] >> _32) <= (limit & _LOW)
        # Written whether accepted or not: a branch here would be mispredicted, and would wait for memory.
        places[found] = k
        rows[found] = row
        found += np.int64(accepted)
    return found, undecided


@njit
def stack(cumulative_losses: AnyArray, base: int, heights: Indices, stairs: Indices) -> None:
    """Sum up the heights of the records, and write down the sum after every :data:`STEP` of them."""
    last = len(heights) - 1
    total = 0
    for step in range(len(stairs)):
        for i in range(step * STEP, min((step + 1) * STEP, len(cumulative_losses))):
            total += heights[level(cumulative_losses[i], base, last)]
        stairs[step] = total


@njit
def find(
    points: Indices,
    words: Words,
    first: int,
    cumulative_losses: AnyArray,
    base: int,
    limits: Words,
    heights: Indices,
    stairs: Indices,
    places: Indices,
    rows: Indices,
) -> int:
    """Find the record on whose height each point lies, heights piled up from ``first``; accept or reject it.

    Points outside this shard's sums are left to others. Returns how many are accepted.
    """
    last = len(heights) - 1
    found: Any = 0
    for k in range(len(points)):
        point = points[k] - first
        if point < 0 or len(stairs) == 0 or point >= stairs[-1]:
            continue
        step = np.searchsorted(stairs, point, side="right")
        row = step * STEP
        left = point - (stairs[step - 1] if step > 0 else 0)
        while left >= heights[level(cumulative_losses[row], base, last)]:
            left -= heights[level(cumulative_losses[row], base, last)]
            row += 1
        places[found] = k
        rows[found] = row
        found += np.int64(words[k] <= limits[level(cumulative_losses[row], base, last)])
    return int(found)
