"""Some of very many people as a mask: a bit for each, most significant first, padded with zeros to whole bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import Indices
from common.core.errors import BadMessage

Mask = NDArray[np.uint8]
"""Shape (ceil(n / 8),)."""
BYTES = 1 << 20
"""Bytes that are worked on at a time."""


def ones(mask: Mask) -> int:
    """Return how many people are in a mask."""
    pieces = (mask[at : at + BYTES] for at in range(0, len(mask), BYTES))
    return sum(int(np.bitwise_count(piece).sum(dtype=np.int64)) for piece in pieces)


def padded_with_zeros(mask: Mask, people: int) -> bool:
    """Tell whether a mask is one over so many people: of that length, and without bits behind the last of them."""
    behind = -people % 8
    return len(mask) == (people + 7) // 8 and not (behind and int(mask[-1]) & ((1 << behind) - 1))


def cut(mask: Mask, start: int, stop: int) -> Mask:
    """Return the mask of the people from ``start`` to ``stop`` (exclusive), the first of whom is then number 0."""
    first, shift = divmod(start, 8)
    size, last = (stop - start + 7) // 8, (stop + 7) // 8
    found = mask[first:last].copy()
    if shift:
        following = np.append(found[1:], np.uint8(0))
        found = (found << np.uint8(shift)) | (following >> np.uint8(8 - shift))
    found = found[:size]
    behind = -(stop - start) % 8
    if behind:
        found[-1] &= np.uint8(256 - (1 << behind))
    return found


def fill(mask: Mask, start: int, stop: int) -> None:
    """Put the people from ``start`` to ``stop`` (exclusive) into a mask."""
    first, last = -(-start // 8), stop // 8
    if first > last:  # all within one byte
        mask[last] |= np.uint8((0xFF >> (start % 8)) & (0xFF << (8 - stop % 8)) & 0xFF)
        return
    if start % 8:
        mask[first - 1] |= np.uint8(0xFF >> (start % 8))
    mask[first:last] = 0xFF
    if stop % 8:
        mask[last] |= np.uint8((0xFF << (8 - stop % 8)) & 0xFF)


def paste(mask: Mask, start: int, other: Mask) -> None:
    """Put the people of another mask into this one, the first of whom is number ``start`` here."""
    first, shift = divmod(start, 8)
    mask[first : first + len(other)] |= other >> np.uint8(shift)
    if shift:
        rest = (other << np.uint8(8 - shift))[: len(mask) - first - 1]
        mask[first + 1 : first + 1 + len(rest)] |= rest


def members(mask: Mask, size: int = BYTES) -> Iterator[Indices]:
    """Go through the people in a mask, ascending: those of so many bytes of it at a time."""
    for at in range(0, len(mask), size):
        yield 8 * at + np.flatnonzero(np.unpackbits(mask[at : at + size]))


def encode(mask: Mask) -> str:
    """Return a mask as base64."""
    return base64.b64encode(mask.tobytes()).decode("ascii")


def decode(text: str, people: int) -> Mask:
    """Decode :func:`encode`.

    Raises:
        BadMessage: If the text is no mask over so many people.
    """
    try:
        found = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except ValueError as error:
        raise BadMessage(f"a mask of people: {error}") from None
    if not padded_with_zeros(found, people):
        raise BadMessage(f"a mask over {people} people has {(people + 7) // 8} bytes, and no bits behind the last one")
    return found
