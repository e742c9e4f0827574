"""Beimel et al., Lemma 3.3: one changed record moves every block of ranks by one element, and alpha eps is needed.

    python -m benchmarks.corrections.blocks

All samples of six records with y in {0, ..., 3}, replacements of the first or the last: blocks of two after sorting
(ties by place). Then the smallest epsilon per block for which releases of K blocks keep to eps together, by
randomized response of one bit of each block: exactly eps/K.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter

RECORDS, SIZE, VALUES = 6, 2, 4


def blocks(values: tuple[int, ...]) -> list[Counter[tuple[int, int]]]:
    """Return the blocks of ranks as multisets of (y, place)."""
    ranked = sorted((value, place) for place, value in enumerate(values))
    return [Counter(ranked[i : i + SIZE]) for i in range(0, RECORDS, SIZE)]


def main() -> None:
    """Print how many blocks change and by how much, and what releases of all blocks cost."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    most_blocks = most_elements = pairs = 0
    example = ((0,) * RECORDS, (0,) * RECORDS)
    for values in itertools.product(range(VALUES), repeat=RECORDS):
        here = blocks(values)
        for place in (0, RECORDS - 1):
            for new in range(VALUES):
                other = (*values[:place], new, *values[place + 1 :])
                changed = [(a - b).total() for a, b in zip(here, blocks(other), strict=True)]
                pairs += 1
                most_elements = max(most_elements, *changed)
                if sum(map(bool, changed)) > most_blocks:
                    most_blocks, example = sum(map(bool, changed)), (values, other)
    assert (most_elements, most_blocks) == (1, RECORDS // SIZE)
    print(
        f"{pairs} pairs of neighbours: up to {most_blocks} of 3 blocks change, by at most {most_elements} element each"
    )
    print(f"  as from y = {example[0]} to {example[1]}")
    # y: 0 .. n-1, blocks of size 1; the bit of a block is the parity of its y: moving the first record past the last
    # turns every bit, so K answers of randomized response with e each have the ratio e^(K e).
    for count, epsilon in ((3, 1.0), (10, 1.0)):
        first = [value % 2 for value in range(count)]
        second = [value % 2 for value in range(1, count + 1)]  # record 0 became record `count`
        turned = sum(a != b for a, b in zip(first, second, strict=True))
        each = epsilon / count
        ratio = sum(
            math.log((math.exp(each) / (1 + math.exp(each))) / (1 / (1 + math.exp(each)))) for _ in range(turned)
        )
        assert turned == count
        assert math.isclose(ratio, epsilon)
        print(f"K = {count:2d} blocks by rank: {turned} bits turn; eps/K each costs {ratio:.3f} eps in all")


if __name__ == "__main__":
    main()
