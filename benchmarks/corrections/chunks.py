"""Bassily, Thakkar and Thakurta, Algorithm 2: chunks one after the other shift, and one deletion turns every vote.

    python -m benchmarks.corrections.chunks

200 chunks of 5 records; a teacher repeats the label of its first record. The second record of each five has label 1,
the others 0. Without the first record of all, every chunk begins with what was its second. A chunk that is a function
of the record's identity alone loses one record, and no other chunk changes: tried for every single deletion.
"""

from __future__ import annotations

import argparse
import hashlib

CHUNKS, SIZE = 200, 5
Record = tuple[str, int]


def by_place(place: int, record: Record) -> int:
    """Return the chunk of a record when the file is cut into pieces one after the other."""
    return min(place // SIZE, CHUNKS - 1)


def by_identity(place: int, record: Record) -> int:
    """Return the chunk of a record as a public function of its identity."""
    return int.from_bytes(hashlib.sha256(record[0].encode()).digest()[:8], "big") % CHUNKS


def votes(records: list[Record], chunks: list[int]) -> list[int]:
    """Return each teacher's vote: the label of the first record of its chunk, 0 where there is none."""
    ballots: dict[int, int] = {}
    for (_, label), chunk in zip(records, chunks, strict=True):
        ballots.setdefault(chunk, label)
    return [ballots.get(chunk, 0) for chunk in range(CHUNKS)]


def main() -> None:
    """Print the votes before and after one deletion, both ways."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    everybody = [(f"record {i}", int(i % SIZE == 1)) for i in range(CHUNKS * SIZE)]
    for name, chunk, most in (("one after the other", by_place, CHUNKS), ("by identity", by_identity, 1)):
        before = votes(everybody, [chunk(i, record) for i, record in enumerate(everybody)])
        worst, after = 0, before
        for gone in range(0, len(everybody), 1 if chunk is by_identity else len(everybody)):
            left = everybody[:gone] + everybody[gone + 1 :]
            found = votes(left, [chunk(i, record) for i, record in enumerate(left)])
            changed = sum(a != b for a, b in zip(before, found, strict=True))
            if changed > worst:
                worst, after = changed, found
        assert worst == most
        print(
            f"chunks {name}: {sum(before)} of {CHUNKS} vote 1; after the worst deletion {sum(after)}, {worst} changed"
        )


if __name__ == "__main__":
    main()
