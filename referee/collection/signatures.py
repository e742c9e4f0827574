"""Signatures of many messages, verified or made by libsodium, which holds no interpreter lock meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from nacl import bindings
from nacl.exceptions import BadSignatureError

from common.core.arrays import AnyArray
from common.core.machine import processors

MANY = 1024
"""So many for each core are worth a thread on it: what an audit verifies, and no group of requests."""


def verified(keys: Sequence[bytes], payloads: Sequence[bytes], signatures: Sequence[bytes]) -> AnyArray:
    """Tell of each payload whether its signature verifies under its key (Ed25519, strictly as libsodium does).

    Args:
        keys, payloads, signatures: Of equal length; a key has 32 bytes, a signature 64.

    Returns:
        Shape (len(keys),), bool.
    """
    count = len(keys)
    parts = min(processors(), count // MANY) or 1
    edges = [count * part // parts for part in range(parts + 1)]
    good = np.zeros(count, dtype=np.bool_)

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            good[i] = _verifies(keys[i], payloads[i], signatures[i])

    if parts == 1:
        work(0, count)
    else:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(work, edges, edges[1:]))
    return good


def _verifies(key: bytes, payload: bytes, signature: bytes) -> bool:
    if len(key) != bindings.crypto_sign_PUBLICKEYBYTES or len(signature) != bindings.crypto_sign_BYTES:
        return False  # the library reads as many bytes, whatever there is
    try:
        bindings.crypto_sign_open(signature + payload, key)
    except BadSignatureError:
        return False
    return True


def sign_all(secret: bytes, payloads: Sequence[bytes]) -> list[bytes]:
    """Return the signature of each payload (Ed25519, deterministic).

    Args:
        secret: 64 bytes: the seed, then the public key.
    """
    return [bindings.crypto_sign(payload, secret)[: bindings.crypto_sign_BYTES] for payload in payloads]
