"""Signatures of many messages, verified in one call that does not hold the interpreter.

One call of libsodium takes some 60 microseconds. Python threads that verify one signature each wait for the interpreter
after each; a compiled loop over a whole group waits once.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import nacl._sodium
import numpy as np
from numba import njit

from common.core.arrays import AnyArray

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
        loop: Callable[..., None] = _loop if count <= FEW else compiled()

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


_verify: Any = ctypes.CDLL(nacl._sodium.__file__).crypto_sign_verify_detached
_verify.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_void_p]
_verify.restype = ctypes.c_int


@cache
def compiled() -> Callable[..., None]:
    """Return the loop, compiled at its first use (half a second); a service asks for it before anybody waits."""
    loop: Callable[..., None] = njit("void(intp, intp, intp, int64[::1], b1[::1])", nogil=True)(_loop)
    return loop
