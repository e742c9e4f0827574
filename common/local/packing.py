"""Packed answers: a bit, a little-endian double, or one of k symbols in a byte, or in two if k is above 256.

A report on n people is a mask of ceil(n/8) bytes (a bit for each, most significant first), followed by the answers of
all n in order. The encoding is unique: padding bits, and the answers of people who did not answer, are zero.
"""

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from common.core.arrays import AnyArray, Indices
from common.core.errors import BadMessage

AnswerKind = Literal["bit", "real"] | int
"""The type of an answer: a bit, a double, or (k, from 3 to :data:`MAX_SYMBOLS`) one of the symbols 0, ..., k-1."""
Mask = NDArray[np.uint8]  # shape (ceil(n / 8),)
MAX_SYMBOLS = 1 << 16
PIECE = 1 << 20  # bytes of a mask that are processed at a time
_ANSWERED = b"\x80"  # the mask of one agent that answers; also one agent's packed bit 1


def mask_bytes(people: int) -> int:
    """Return the size in bytes of a mask over ``people`` people."""
    return (people + 7) // 8


def packed_bytes(people: int, kind: AnswerKind) -> int:
    """Return the size in bytes of the packed answers of ``people`` people."""
    head = mask_bytes(people)
    return head + (head if kind == "bit" else answer_type(kind).itemsize * people)


def pack_answers(answered: NDArray[np.bool_], answers: AnyArray, kind: AnswerKind) -> bytes:
    """Encode who answered, shape (k,), and the answers, of :func:`answer_type`; others' answers are ignored."""
    filled = np.where(answered, answers, 0).astype(answer_type(kind))
    return np.packbits(answered).tobytes() + (np.packbits(filled) if kind == "bit" else filled).tobytes()


def unpack_answers(body: bytes, people: int, kind: AnswerKind) -> tuple[NDArray[np.bool_], AnyArray]:
    """Decode :func:`pack_answers` into (answered, answers of all).

    Raises:
        BadMessage: If the length is wrong, padding is not zero, a silent agent has an answer, or an answer is not
            finite or none of the symbols.
    """
    mask, answers = _split(body, people, kind)
    answered = np.unpackbits(mask, count=people).astype(np.bool_)
    return answered, np.unpackbits(answers, count=people) if kind == "bit" else answers


def count_answers(body: bytes, people: int, kind: AnswerKind) -> int:
    """Return how many people have answered; raises as :func:`unpack_answers` does."""
    return count_ones(_split(body, people, kind)[0])


def unpack_answered(body: bytes, people: int, kind: AnswerKind) -> tuple[Mask, Iterator[AnyArray]]:
    """Decode into the mask of who answered and an iterator over pieces of their answers, in order; raises as above."""
    mask, packed = _split(body, people, kind)
    if kind != "bit":
        return mask, iter((packed[np.unpackbits(mask, count=people).astype(np.bool_)],))

    def pieces() -> Iterator[AnyArray]:
        for start in range(0, len(mask), PIECE):
            answered = np.unpackbits(mask[start : start + PIECE]).astype(np.bool_)
            yield np.unpackbits(packed[start : start + PIECE])[answered]

    return mask, pieces()


def _split(body: bytes, people: int, kind: AnswerKind) -> tuple[Mask, AnyArray]:
    """Return the mask of who answered, and the answers of all, validated; bits remain packed."""
    head, expected = mask_bytes(people), packed_bytes(people, kind)
    if len(body) != expected:
        raise BadMessage(f"{people} packed answers take {expected} bytes, found {len(body)}")
    raw = np.frombuffer(body, dtype=np.uint8)  # no copy: bits may be those of very many people
    mask, answers = raw[:head], raw[head:] if kind == "bit" else np.frombuffer(body[head:], dtype=answer_type(kind))
    if not padded_with_zeros(mask, people) or (kind == "bit" and not padded_with_zeros(answers, people)):
        raise BadMessage("the padding bits of packed answers must be zero")
    if kind != "bit":
        _check_answers(np.unpackbits(mask, count=people).astype(np.bool_), answers, kind)
    elif np.any(answers & ~mask):
        raise BadMessage("packed answers hold an answer of an agent that is marked silent")
    return mask, answers


def unpack_each(bodies: Sequence[bytes], kind: AnswerKind) -> tuple[NDArray[np.bool_], AnyArray]:
    """Decode many packed answers of one agent each, as :func:`unpack_answers` decodes one."""
    size = 1 + (1 if kind == "bit" else answer_type(kind).itemsize)
    if any(len(body) != size for body in bodies):
        raise BadMessage(f"one packed answer takes {size} bytes")
    rows = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(-1, size)
    # Each answer has a mask of one bit; all other bits of the mask's byte, and of a bit's, are padding.
    if np.any(rows[:, 0] & 0x7F) or (kind == "bit" and np.any(rows[:, 1] & 0x7F)):
        raise BadMessage("the padding bits of packed answers must be zero")
    answered = (rows[:, 0] >> 7).astype(np.bool_)
    raw = rows[:, 1] >> 7 if kind == "bit" else np.ascontiguousarray(rows[:, 1:]).reshape(-1).view(answer_type(kind))
    _check_answers(answered, raw, kind)
    return answered, raw


def pack_one(answer: float, kind: AnswerKind) -> bytes:
    """Encode one agent's answer, given as a number; raises BadMessage if it is not an answer of this kind."""
    if kind == "real":
        return _ANSWERED + struct.pack("<d", answer)
    symbols = kind if isinstance(kind, int) else 2
    if answer not in range(symbols):
        raise BadMessage(f"answer must be one of 0 to {symbols - 1} under this run's mechanism, found {answer:g}")
    if kind == "bit":
        return _ANSWERED + (_ANSWERED if answer else b"\x00")
    return _ANSWERED + int(answer).to_bytes(answer_type(kind).itemsize, "little")


def unpack_one(body: bytes, kind: AnswerKind) -> float:
    """Decode :func:`pack_one`."""
    if kind == "real":
        return float(struct.unpack_from("<d", body, 1)[0])
    return float(body[1] >> 7 if kind == "bit" else int.from_bytes(body[1:], "little"))


def answer_type(kind: AnswerKind) -> np.dtype[Any]:
    """Return the numpy type of answers of this kind."""
    if isinstance(kind, int):
        return np.dtype(np.uint8 if kind <= 256 else "<u2")
    return np.dtype(np.uint8 if kind == "bit" else "<f8")


def _check_answers(answered: NDArray[np.bool_], answers: AnyArray, kind: AnswerKind) -> None:
    if kind == "real" and not np.isfinite(answers).all():
        raise BadMessage("packed answers hold NaN or an infinity; every answer must be finite")
    if isinstance(kind, int) and answers.max(initial=0) >= kind:
        raise BadMessage(f"packed answers hold {int(answers.max())}; the symbols are 0 to {kind - 1}")
    if answers[~answered].view(np.uint8).any():  # compares bytes: -0.0 would be a second encoding
        raise BadMessage("packed answers hold an answer of an agent that is marked silent")


def count_ones(mask: Mask) -> int:
    """Return how many people are in a mask."""
    pieces = (mask[start : start + PIECE] for start in range(0, len(mask), PIECE))
    return sum(int(np.bitwise_count(piece).sum(dtype=np.int64)) for piece in pieces)


def padded_with_zeros(mask: Mask, people: int) -> bool:
    """Return whether a mask over ``people`` people has the right length and only zeros as padding bits."""
    padding = -people % 8
    return len(mask) == (people + 7) // 8 and not (padding and int(mask[-1]) & ((1 << padding) - 1))


def cut_mask(mask: Mask, start: int, stop: int) -> Mask:
    """Return the mask of the people from ``start`` to ``stop`` (exclusive), numbered from 0 in the result."""
    first, shift = divmod(start, 8)
    size, last = (stop - start + 7) // 8, (stop + 7) // 8
    part = mask[first:last].copy()
    if shift:
        following = np.append(part[1:], np.uint8(0))
        part = (part << np.uint8(shift)) | (following >> np.uint8(8 - shift))
    part = part[:size]
    padding = -(stop - start) % 8
    if padding:
        part[-1] &= np.uint8(256 - (1 << padding))
    return part


def fill_mask(mask: Mask, start: int, stop: int) -> None:
    """Add the people from ``start`` to ``stop`` (exclusive) to a mask, in place."""
    first, last = -(-start // 8), stop // 8
    if first > last:  # all within one byte
        mask[last] |= np.uint8((0xFF >> (start % 8)) & (0xFF << (8 - stop % 8)) & 0xFF)
        return
    if start % 8:
        mask[first - 1] |= np.uint8(0xFF >> (start % 8))
    mask[first:last] = 0xFF
    if stop % 8:
        mask[last] |= np.uint8((0xFF << (8 - stop % 8)) & 0xFF)


def paste_mask(mask: Mask, start: int, other: Mask) -> None:
    """Add the people of ``other`` to a mask, in place; number 0 of ``other`` is number ``start`` here."""
    first, shift = divmod(start, 8)
    mask[first : first + len(other)] |= other >> np.uint8(shift)
    if shift:
        rest = (other << np.uint8(8 - shift))[: len(mask) - first - 1]
        mask[first + 1 : first + 1 + len(rest)] |= rest


def members(mask: Mask, size: int = PIECE) -> Iterator[Indices]:
    """Yield the numbers of the people in a mask, ascending, one array for each ``size`` bytes of the mask."""
    for start in range(0, len(mask), size):
        yield 8 * start + np.flatnonzero(np.unpackbits(mask[start : start + size]))


def encode_mask(mask: Mask) -> str:
    """Return a mask as base64."""
    return base64.b64encode(mask.tobytes()).decode("ascii")


def decode_mask(text: str, people: int) -> Mask:
    """Decode :func:`encode_mask`; raises BadMessage if the text is not a mask over ``people`` people."""
    try:
        mask = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except ValueError as error:
        raise BadMessage(f"a mask of people: {error}") from None
    if not padded_with_zeros(mask, people):
        raise BadMessage(f"a mask over {people} people has {(people + 7) // 8} bytes, and no bits behind the last one")
    return mask
