"""The source of all randomness that protects people: an AES-256-CTR keystream with a 32-byte key.

The key determines the use of the stream. With a key from the operating system it is a cryptographic generator. With a
key derived from a party's durable secret and an operation's id it is a cryptographic generator that a restarted party
can draw from *again*, so that work interrupted by a crash is repeated exactly and there is never a second, different
sample. With a key derived from a public seed it is a reproducible simulation, marked ``simulated``: parties refuse such
a source where real people's records are processed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import cached_property
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from common.core.arrays import Bits, Floats, Indices, Words
from common.core.durable import durable_key
from common.numerics.elementary import log, turned

_TWO_53 = 2.0**-53
_ZEROS = bytes(1 << 18)  # encrypting zeros gives the keystream; a piece fits in the second-level cache
_BLOCK = 1 << 15


class RandomSource:
    """A stream of random words, determined by a key of 32 bytes; ``simulated`` if the key comes from a public seed."""

    def __init__(self, key: bytes, *, simulated: bool) -> None:
        if len(key) != 32:
            raise ValueError(f"a key has 32 bytes, not {len(key)}")
        self._key = key
        self.simulated = simulated

    def __repr__(self) -> str:
        return f"RandomSource(simulated={self.simulated})"

    @classmethod
    def secure(cls) -> RandomSource:
        """Return a source keyed by the operating system."""
        return cls(os.urandom(32), simulated=False)

    @classmethod
    def seeded(cls, seed: int, *labels: str | int) -> RandomSource:
        """Return a reproducible source, for simulated people only."""
        return cls(hashlib.sha256(f"tandem seed {seed}".encode()).digest(), simulated=True).derive(*labels)

    def derive(self, *labels: str | int) -> RandomSource:
        """Return an independent source for a purpose (HMAC-SHA256 of the labels under this key)."""
        message = b"\x00".join(f"{type(label).__name__}:{label}".encode() for label in labels)
        return RandomSource(hmac.digest(self._key, message, "sha256"), simulated=self.simulated)

    def words(self, count: int) -> Words:
        """Draw ``count`` independent uniform 64-bit words."""
        return self._keystream(8 * count).view(np.uint64)

    @cached_property
    def _stream(self) -> CipherContext:
        return Cipher(algorithms.AES(self._key), modes.CTR(bytes(16))).encryptor()

    def _keystream(self, size: int) -> Bits:
        # The cipher needs 15 bytes of room after its output.
        buffer = np.empty(size + 15, dtype=np.uint8)
        view = buffer.data
        for start in range(0, size, len(_ZEROS)):
            piece = min(len(_ZEROS), size - start)
            self._stream.update_into(memoryview(_ZEROS)[:piece], view[start : start + piece + 15])
        return buffer[:size]

    def uniforms(self, count: int) -> Floats:
        """Draw ``count`` uniform doubles in [0, 1), multiples of 2^-53."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * _TWO_53

    def integers(self, bound: int, count: int) -> Indices:
        """Draw ``count`` integers exactly uniform on 0..bound-1, bound <= 2^62, by rejection of the largest words."""
        if not 1 <= bound <= 1 << 62:
            raise ValueError(f"bound must be in 1..2^62, got {bound}")
        limit = ((1 << 64) // bound) * bound - 1
        words = self.words(count)
        bad = np.flatnonzero(words > np.uint64(limit))
        while bad.size:
            words[bad] = self.words(bad.size)
            bad = bad[words[bad] > np.uint64(limit)]
        return (words % np.uint64(bound)).astype(np.int64)

    def bernoullis(self, probability: float, count: int) -> Bits:
        """Draw ``count`` bits, each 1 with probability exactly ``floor(probability * 2^53) / 2^53``, never more.

        A draw takes one word, and a time that does not depend on the result.
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"probability must be in [0, 1], got {probability}")
        threshold = np.uint64(int(probability * 2.0**53))
        bits = np.empty(count, dtype=np.bool_)
        for start in range(0, count, _BLOCK):
            piece = bits[start : start + _BLOCK]
            np.less(self.words(len(piece)) >> np.uint64(11), threshold, out=piece)
        return bits.view(np.uint8)

    def normals(self, count: int) -> Floats:
        """Draw ``count`` standard normals (Box-Muller on 53-bit uniforms; |z| <= 8.6)."""
        pairs = (count + 1) // 2
        radius = np.sqrt(-2.0 * log(1.0 - self.uniforms(pairs)))
        cosine, sine = turned(self.uniforms(pairs))
        return np.concatenate([radius * cosine, radius * sine])[:count]


def subseed(seed: int, purpose: str) -> int:
    """Return a public seed for a purpose, below 2^62, since source and target of a run must not share people."""
    return int(RandomSource.seeded(seed, purpose).integers(1 << 62, 1)[0])


def durable_secret(path: Path) -> RandomSource:
    """Return a cryptographic source keyed by the secret of :func:`common.core.durable.durable_key`."""
    return RandomSource(durable_key(path), simulated=False)
