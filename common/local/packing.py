"""Packed answers: a bit, a little-endian double, or one of k symbols in a byte, or in two if k is above 256.

A report on n people is a mask of ceil(n/8) bytes (a bit for each, most significant first), then the answers of all n in
order. There is one encoding of given answers: padding bits, and the answers of those who gave none, are zero.
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
"""What an answer is: a bit, a double, or one of so many symbols 0, 1, ..., from 3 to :data:`MAX_SYMBOLS`."""
Mask = NDArray[np.uint8]  # shape (ceil(n / 8),)
MAX_SYMBOLS = 1 << 16
PIECE = 1 << 20  # bytes of a mask that are worked on at a time
_ANSWERED = b"\x80"  # the mask of one agent that answers; also the bit 1 of one agent


def mask_bytes(people: int) -> int:
    """Bytes of a mask over that many people."""
    return (people + 7) // 8


def packed_bytes(people: int, kind: AnswerKind) -> int:
    """Bytes of the packed answers of that many people."""
    head = mask_bytes(people)
    return head + (head if kind == "bit" else answer_type(kind).itemsize * people)


def pack_answers(answered: NDArray[np.bool_], answers: AnyArray, kind: AnswerKind) -> bytes:
    """Encode who answered, shape (k,), and the answers, of :func:`answer_type`; ignored where not answered."""
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
    """Return how many people have answered; errors as those of :func:`unpack_answers`."""
    return count_ones(_split(body, people, kind)[0])


def unpack_answered(body: bytes, people: int, kind: AnswerKind) -> tuple[Mask, Iterator[AnyArray]]:
    """Decode into the mask of who answered and, piece by piece, their answers, in order; errors as above."""
    mask, packed = _split(body, people, kind)
    if kind != "bit":
        return mask, iter((packed[np.unpackbits(mask, count=people).astype(np.bool_)],))

    def pieces() -> Iterator[AnyArray]:
        for at in range(0, len(mask), PIECE):
            answered = np.unpackbits(mask[at : at + PIECE]).astype(np.bool_)
            yield np.unpackbits(packed[at : at + PIECE])[answered]

    return mask, pieces()


def _split(body: bytes, people: int, kind: AnswerKind) -> tuple[Mask, AnyArray]:
    """Return the mask of who answered, and what all did, where bits stay packed; everything is checked."""
    head, expected = mask_bytes(people), packed_bytes(people, kind)
    if len(body) != expected:
        raise BadMessage(f"{people} packed answers take {expected} bytes, found {len(body)}")
    raw = np.frombuffer(body, dtype=np.uint8)  # of bits of very many people nothing is copied
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
    # In the bytes of one answer after the other nothing is padded with other than zeros, and the mask is one bit.
    if np.any(rows[:, 0] & 0x7F) or (kind == "bit" and np.any(rows[:, 1] & 0x7F)):
        raise BadMessage("the padding bits of packed answers must be zero")
    answered = (rows[:, 0] >> 7).astype(np.bool_)
    raw = rows[:, 1] >> 7 if kind == "bit" else np.ascontiguousarray(rows[:, 1:]).reshape(-1).view(answer_type(kind))
    _check_answers(answered, raw, kind)
    return answered, raw


def pack_one(answer: float, kind: AnswerKind) -> bytes:
    """Encode one agent's answer, given as a number; BadMessage if it is none of the kind."""
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
    """Return the type of answers in memory."""
    if isinstance(kind, int):
        return np.dtype(np.uint8 if kind <= 256 else "<u2")
    return np.dtype(np.uint8 if kind == "bit" else "<f8")


def _check_answers(answered: NDArray[np.bool_], answers: AnyArray, kind: AnswerKind) -> None:
    if kind == "real" and not np.isfinite(answers).all():
        raise BadMessage("packed answers hold NaN or an infinity; every answer must be finite")
    if isinstance(kind, int) and answers.max(initial=0) >= kind:
        raise BadMessage(f"packed answers hold {int(answers.max())}; the symbols are 0 to {kind - 1}")
    if answers[~answered].view(np.uint8).any():  # -0.0, too, would be a second encoding
        raise BadMessage("packed answers hold an answer of an agent that is marked silent")


def count_ones(mask: Mask) -> int:
    """Return how many people are in a mask."""
    pieces = (mask[at : at + PIECE] for at in range(0, len(mask), PIECE))
    return sum(int(np.bitwise_count(piece).sum(dtype=np.int64)) for piece in pieces)


def padded_with_zeros(mask: Mask, people: int) -> bool:
    """Tell whether a mask is one over so many people: of that length, and without bits behind the last of them."""
    behind = -people % 8
    return len(mask) == (people + 7) // 8 and not (behind and int(mask[-1]) & ((1 << behind) - 1))


def cut_mask(mask: Mask, start: int, stop: int) -> Mask:
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


def fill_mask(mask: Mask, start: int, stop: int) -> None:
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


def paste_mask(mask: Mask, start: int, other: Mask) -> None:
    """Put the people of another mask into this one, the first of whom is number ``start`` here."""
    first, shift = divmod(start, 8)
    mask[first : first + len(other)] |= other >> np.uint8(shift)
    if shift:
        rest = (other << np.uint8(8 - shift))[: len(mask) - first - 1]
        mask[first + 1 : first + 1 + len(rest)] |= rest


def members(mask: Mask, size: int = PIECE) -> Iterator[Indices]:
    """Go through the people in a mask, ascending: those of so many bytes of it at a time."""
    for at in range(0, len(mask), size):
        yield 8 * at + np.flatnonzero(np.unpackbits(mask[at : at + size]))


def encode_mask(mask: Mask) -> str:
    """Return a mask as base64."""
    return base64.b64encode(mask.tobytes()).decode("ascii")


def decode_mask(text: str, people: int) -> Mask:
    """Decode :func:`encode_mask`; BadMessage if the text is no mask over so many people."""
    try:
        found = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except ValueError as error:
        raise BadMessage(f"a mask of people: {error}") from None
    if not padded_with_zeros(found, people):
        raise BadMessage(f"a mask over {people} people has {(people + 7) // 8} bytes, and no bits behind the last one")
    return found
