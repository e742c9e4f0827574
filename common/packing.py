"""Packed answers: one bit per agent where the answer is a bit, one little-endian double where it is a number.

A report on k people is a mask of ceil(k/8) bytes (who answered), then the answers of all k in order, zero where there
is none. There is exactly one encoding of given answers: padding bits and the answers of the silent must be zero.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from common.arrays import AnyArray
from common.errors import BadMessage

AnswerKind = Literal["bit", "real"]


def mask_bytes(people: int) -> int:
    """Bytes of a mask over that many people."""
    return (people + 7) // 8


def pack_answers(answered: NDArray[np.bool_], answers: AnyArray, kind: AnswerKind) -> bytes:
    """Encode answers.

    Parameters
    ----------
    answered
        Shape (k,): who answered.
    answers
        Shape (k,): uint8 bits or float64; ignored where not answered.
    kind
        What an answer is.
    """
    said = np.where(answered, answers, 0)
    tail = np.packbits(said.astype(np.uint8)).tobytes() if kind == "bit" else said.astype("<f8").tobytes()
    return np.packbits(answered).tobytes() + tail


def unpack_answers(body: bytes, people: int, kind: AnswerKind) -> tuple[NDArray[np.bool_], AnyArray]:
    """Decode :func:`pack_answers` into (answered, answers of all).

    Raises
    ------
    BadMessage
        If the length is wrong, padding is not zero, a silent agent has an answer, or an answer is not finite.
    """
    head = mask_bytes(people)
    expected = head + (head if kind == "bit" else 8 * people)
    if len(body) != expected:
        raise BadMessage(f"{people} packed answers take {expected} bytes, found {len(body)}")
    answered = _bits(body[:head], people).astype(np.bool_)
    answers: AnyArray = _bits(body[head:], people) if kind == "bit" else np.frombuffer(body[head:], dtype="<f8")
    if not np.isfinite(answers).all():
        raise BadMessage("packed answers hold NaN or an infinity; every answer must be finite")
    if np.any(answers[~answered] != 0):
        raise BadMessage("packed answers hold an answer of an agent that is marked silent")
    return answered, answers


def _bits(raw: bytes, people: int) -> NDArray[np.uint8]:
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8))
    if np.any(bits[people:]):
        raise BadMessage("the padding bits of packed answers must be zero")
    return bits[:people]
