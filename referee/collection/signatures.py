"""Signatures of many messages, verified or made in one call that does not hold the interpreter.

One call of libsodium takes some 60 microseconds. Python threads that verify or make one signature each wait for the
interpreter after each; a compiled loop over a whole group waits once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import nacl._sodium
import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import called_at, njit

FEW = 4
"""Groups up to this size are not worth waiting for the loop to be compiled."""
MANY = 1024
"""So many for each core are worth a thread on it: what an audit verifies, and no group of requests."""


def verified(keys: Sequence[bytes], payloads: Sequence[bytes], signatures: Sequence[bytes]) -> AnyArray:
    """Tell of each payload whether its signature verifies under its key (Ed25519, strictly as libsodium does).

    Parameters
    ----------
    keys, payloads, signatures
        Of equal length; a key has 32 bytes, a signature 64.

    Returns
    -------
    Shape (len(keys),), bool.
    """
    count = len(keys)
    good = np.zeros(count, dtype=np.bool_)
    if count:
        ends = np.cumsum(np.array([len(payload) for payload in payloads], dtype=np.int64))
        arrays = [np.frombuffer(b"".join(parts), dtype=np.uint8) for parts in (keys, signatures, payloads)]
        key, signature, payload = (array.ctypes.data for array in arrays)
        loop: Callable[..., None] = _loop if count <= FEW else compiled()[0]

        def work(first: int, last: int) -> None:
            before = int(ends[first - 1]) if first else 0
            loop(
                key + 32 * first, signature + 64 * first, payload + before, ends[first:last] - before, good[first:last]
            )

        parts = min(len(os.sched_getaffinity(0)), count // MANY) or 1
        edges = [count * part // parts for part in range(parts + 1)]
        if parts == 1:
            work(0, count)
        else:
            with ThreadPoolExecutor(parts) as pool:
                list(pool.map(work, edges, edges[1:]))
    return good


def _loop(keys: int, signatures: int, payloads: int, ends: AnyArray, good: AnyArray) -> None:
    start = 0
    for i in range(len(ends)):
        end = int(ends[i])
        good[i] = _verify(signatures + 64 * i, payloads + start, end - start, keys + 32 * i) == 0
        start = end


@njit
def _compiled_loop(verify: int, keys: int, signatures: int, payloads: int, ends: AnyArray, good: AnyArray) -> None:
    start = 0
    for i in range(len(ends)):
        end = ends[i]
        good[i] = called_at(verify, (signatures + 64 * i, payloads + start, end - start, keys + 32 * i)) == 0
        start = end


def sign_all(secret: bytes, payloads: Sequence[bytes]) -> list[bytes]:
    """Return the signature of each payload (Ed25519, deterministic).

    Parameters
    ----------
    secret
        64 bytes: the seed, then the public key.
    """
    count = len(payloads)
    if not count:
        return []
    ends = np.cumsum(np.array([len(payload) for payload in payloads], dtype=np.int64))
    key, joined = (np.frombuffer(raw, dtype=np.uint8) for raw in (secret, b"".join(payloads)))
    made = np.empty(64 * count, dtype=np.uint8)
    loop: Callable[..., None] = _sign_loop if count <= FEW else compiled()[1]
    loop(key.ctypes.data, joined.ctypes.data, ends, made.ctypes.data)
    raw = made.tobytes()
    return [raw[at : at + 64] for at in range(0, len(raw), 64)]


def _sign_loop(secret: int, payloads: int, ends: AnyArray, made: int) -> None:
    start = 0
    for i in range(len(ends)):
        end = int(ends[i])
        _sign(made + 64 * i, 0, payloads + start, end - start, secret)
        start = end


@njit
def _compiled_sign_loop(sign: int, secret: int, payloads: int, ends: AnyArray, made: int) -> None:
    start = 0
    for i in range(len(ends)):
        end = ends[i]
        called_at(sign, (made + 64 * i, 0, payloads + start, end - start, secret))
        start = end


_SODIUM = ctypes.CDLL(nacl._sodium.__file__)
_verify: Any = _SODIUM.crypto_sign_verify_detached
_verify.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_void_p]
_verify.restype = ctypes.c_int
_sign: Any = _SODIUM.crypto_sign_detached
_sign.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_void_p]
_sign.restype = ctypes.c_int


@cache
def compiled() -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the loops that verify and sign, compiled; they are kept on disk, and take a third of a second to load.

    A service asks for them before anybody waits.
    """
    verify: Callable[..., None] = partial(_compiled_loop, ctypes.cast(_verify, ctypes.c_void_p).value or 0)
    sign: Callable[..., None] = partial(_compiled_sign_loop, ctypes.cast(_sign, ctypes.c_void_p).value or 0)
    none = np.zeros(0, dtype=np.int64)
    verify(0, 0, 0, none, np.zeros(0, dtype=np.bool_))
    sign(0, 0, none, 0)
    return verify, sign
