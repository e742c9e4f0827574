"""A ChaCha8 keystream, computed for many blocks in parallel: the generator of bulk noise.

ChaCha (Bernstein, "ChaCha, a variant of Salsa20", 2008) consists of additions, rotations and exclusive-ors of 32-bit
words, so a processor computes one block in each vector lane at once: here, twice as fast as AES with its hardware
instructions. With 8 rounds it is the generator of Go's runtime, and within the margin that Aumasson ("Too much crypto",
2019) considers sound: the best known attack reaches 7 rounds, at 2^230 operations or more. There are no table lookups,
and no branch depends on the key.
"""

from typing import Any

import numpy as np

from common.core.arrays import AnyArray
from common.numerics.kernels import njit_inlined

KEY_WORDS = 8  # 32-bit words of a key
BLOCK_WORDS = 16  # 32-bit words of a block


@njit_inlined
def fill(key: AnyArray, nonce: Any, stream: Any, blocks: AnyArray) -> None:
    """Write blocks 0, 1, ... of the keystream for a key of 8 words: word i of block j into ``blocks[i, j]``.

    ``blocks`` has the shape (16, lanes), uint32, at most 2^32 lanes. Words 13 and 14 of the state are the nonce and the
    stream; word 12 counts the blocks, word 15 is 0.
    """
    u = np.uint32
    nonce, stream = u(nonce), u(stream)
    k0, k1, k2, k3, k4, k5, k6, k7 = key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]
    for lane in range(blocks.shape[1]):
        start = (
            u(0x61707865), u(0x3320646E), u(0x79622D32), u(0x6B206574), k0, k1, k2, k3, k4, k5, k6, k7,
            u(lane), nonce, stream, u(0),
        )  # fmt: skip
        state = _double_round(_double_round(_double_round(_double_round(start))))
        blocks[0, lane] = state[0] + start[0]
        blocks[1, lane] = state[1] + start[1]
        blocks[2, lane] = state[2] + start[2]
        blocks[3, lane] = state[3] + start[3]
        blocks[4, lane] = state[4] + start[4]
        blocks[5, lane] = state[5] + start[5]
        blocks[6, lane] = state[6] + start[6]
        blocks[7, lane] = state[7] + start[7]
        blocks[8, lane] = state[8] + start[8]
        blocks[9, lane] = state[9] + start[9]
        blocks[10, lane] = state[10] + start[10]
        blocks[11, lane] = state[11] + start[11]
        blocks[12, lane] = state[12] + start[12]
        blocks[13, lane] = state[13] + start[13]
        blocks[14, lane] = state[14] + start[14]
        blocks[15, lane] = state[15] + start[15]


@njit_inlined
def _double_round(state: Any) -> Any:
    """Return the state, a tuple of 16 words, after a round down its columns and one down its diagonals."""
    a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3 = state
    a0, b0, c0, d0 = _quarter_round(a0, b0, c0, d0)
    a1, b1, c1, d1 = _quarter_round(a1, b1, c1, d1)
    a2, b2, c2, d2 = _quarter_round(a2, b2, c2, d2)
    a3, b3, c3, d3 = _quarter_round(a3, b3, c3, d3)
    a0, b1, c2, d3 = _quarter_round(a0, b1, c2, d3)
    a1, b2, c3, d0 = _quarter_round(a1, b2, c3, d0)
    a2, b3, c0, d1 = _quarter_round(a2, b3, c0, d1)
    a3, b0, c1, d2 = _quarter_round(a3, b0, c1, d2)
    return a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3


@njit_inlined
def _quarter_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    a = np.uint32(a + b)
    d = _rotated(np.uint32(d ^ a), 16)
    c = np.uint32(c + d)
    b = _rotated(np.uint32(b ^ c), 12)
    a = np.uint32(a + b)
    d = _rotated(np.uint32(d ^ a), 8)
    c = np.uint32(c + d)
    b = _rotated(np.uint32(b ^ c), 7)
    return a, b, c, d


@njit_inlined
def _rotated(word: Any, count: Any) -> Any:
    return np.uint32(np.uint32(word << np.uint32(count)) | np.uint32(word >> np.uint32(32 - count)))
