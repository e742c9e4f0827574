"""Signatures of many messages, verified or made in one call that does not hold the interpreter.

One call of libsodium takes some 60 microseconds. Python threads that verify or make one signature each wait for the
interpreter after each; a compiled loop over a whole group waits once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial

import nacl._sodium
import numpy as np

from common.core.arrays import AnyArray
from common.core.machine import processors
from common.numerics.kernels import called_at, interpreted, njit

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

        def work(first: int, last: int) -> None:
            before = int(ends[first - 1]) if first else 0
            _verify(
                key + 32 * first, signature + 64 * first, payload + before, ends[first:last] - before, good[first:last]
            )

        parts = min(processors(), count // MANY) or 1
        edges = [count * part // parts for part in range(parts + 1)]
        if parts == 1:
            with _loops(count):
                work(0, count)
        else:
            with ThreadPoolExecutor(parts) as pool:
                list(pool.map(work, edges, edges[1:]))
    return good


@njit
def _verify_loop(verify: int, keys: int, signatures: int, payloads: int, ends: AnyArray, good: AnyArray) -> None:
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
    with _loops(count):
        _sign(key.ctypes.data, joined.ctypes.data, ends, made.ctypes.data)
    raw = made.tobytes()
    return [raw[at : at + 64] for at in range(0, len(raw), 64)]


@njit
def _sign_loop(sign: int, secret: int, payloads: int, ends: AnyArray, made: int) -> None:
    start = 0
    for i in range(len(ends)):
        end = ends[i]
        called_at(sign, (made + 64 * i, 0, payloads + start, end - start, secret))
        start = end


_SODIUM = ctypes.CDLL(nacl._sodium.__file__)


def _address(name: str) -> int:
    """Return where a function of libsodium is."""
    return ctypes.cast(getattr(_SODIUM, name), ctypes.c_void_p).value or 0


_verify: Callable[..., None] = partial(_verify_loop, _address("crypto_sign_verify_detached"))
_sign: Callable[..., None] = partial(_sign_loop, _address("crypto_sign_detached"))


@cache
def compiled() -> None:
    """Load the compiled loops, which are kept on disk: a third of a second.

    A service asks for them before anybody waits.
    """
    none = np.zeros(0, dtype=np.int64)
    _verify(0, 0, 0, none, np.zeros(0, dtype=np.bool_))
    _sign(0, 0, none, 0)


def _loops(count: int) -> AbstractContextManager[None]:
    """Let loops over a few run plainly within."""
    return interpreted() if count <= FEW else nullcontext()
