"""The ChaCha8 keystream: published vectors, a plain reference, and the library's ChaCha20."""

import struct

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from common.numerics.chacha import fill
from tests.tiers import for_each


def plain(key, counter, nonce, stream, rounds):
    """Return a block, 64 bytes, as RFC 8439 describes it, with another number of rounds."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter, nonce, stream, 0]
    x = list(start)

    def add(a, b):
        x[a] = (x[a] + x[b]) % 2**32

    def turn(a, b, by):
        x[a] ^= x[b]
        x[a] = (x[a] << by | x[a] >> (32 - by)) % 2**32

    for number in range(rounds):
        for i in range(4):
            shift = number % 2
            a, b, c, d = i, 4 + (i + shift) % 4, 8 + (i + 2 * shift) % 4, 12 + (i + 3 * shift) % 4
            add(a, b), turn(d, a, 16), add(c, d), turn(b, c, 12)
            add(a, b), turn(d, a, 8), add(c, d), turn(b, c, 7)
    return struct.pack("<16I", *((one + other) % 2**32 for one, other in zip(x, start, strict=True)))


def keystream(key, nonce, stream, lanes):
    blocks = np.empty((16, lanes), dtype=np.uint32)
    fill(np.frombuffer(key, dtype=np.uint32), nonce, stream, blocks)
    return blocks.T.tobytes()


def test_the_published_vector():
    # draft-strombergson-chacha-test-vectors: TC1, 256-bit key, 8 rounds.
    assert keystream(bytes(32), 0, 0, 16)[:64].hex() == (
        "3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e"
        "984ce172b9216f419f445367456d5619314a42a3da86b001387bfdb80e0cfe42"
    )


@for_each("nonce", [0, 7, 2**32 - 1])
@for_each("stream", [0, 1])
def test_every_lane_is_the_block_of_its_number(nonce, stream):
    key = np.random.default_rng(1).bytes(32)
    expected = b"".join(plain(key, block, nonce, stream, 8) for block in range(96))
    assert keystream(key, nonce, stream, 96) == expected


def test_the_plain_reference_with_20_rounds_is_the_library_s():
    key = np.random.default_rng(2).bytes(32)
    library = Cipher(algorithms.ChaCha20(key, struct.pack("<4I", 5, 6, 7, 0)), None).encryptor()
    assert plain(key, 5, 6, 7, 20) == library.update(bytes(64))
