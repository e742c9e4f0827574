"""Counter-based randomness for simulated people: coordinate j of person i is a hash of (seed, stream, i, j).

There is no state, so any person can be drawn at any time, in any order, on any machine, with the same result. The
hash is SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a person's
start is a hash of seed, stream and number, and word j is the finalizer of start + (j + 1) times the golden ratio. Among
N people of d coordinates, the sequences of some two overlap with probability below d N^2 / 2^64. It is for simulations
only and gives no privacy.
"""

import numpy as np

from common.core.arrays import Bits, Floats, Indices, Words
from common.numerics.kernels import njit
from common.numerics.loops import log

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
CELLS = 1 << 12
"""Number of words converted at a time: they remain in the first-level cache, and loops over them are vectorized."""
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_MIDDLE = 0.425
Coefficients = tuple[float, float, float, float, float, float, float, float]
_CENTRE: Coefficients = (
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
)  # fmt: skip
_CENTRE_BELOW: Coefficients = (
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
)  # fmt: skip
_TAIL: Coefficients = (
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
    1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
)  # fmt: skip
_TAIL_BELOW: Coefficients = (
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
)  # fmt: skip
_FAR: Coefficients = (
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
)  # fmt: skip
_FAR_BELOW: Coefficients = (
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
)  # fmt: skip


def stream(seed: int, number: int) -> np.uint64:
    """Return the 64-bit key of a stream; the streams of a seed in 0..2^64-1 (as source and target) are independent."""
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed must be in 0..2^64-1, got {seed}")
    return np.uint64(mix(np.uint64(mix(np.uint64(seed)) ^ np.uint64(number))))


@njit
def mix(word: np.uint64) -> np.uint64:
    """Apply the finalizer of SplitMix64, a bijection of 64-bit words (variant 13 of Stafford)."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@njit
def start(key: np.uint64, person: np.int64) -> np.uint64:
    """Return the start of a person's sequence."""
    return mix(key ^ mix(np.uint64(person) * GOLDEN + _ONE))


@njit
def word(begin: np.uint64, coordinate: int) -> np.uint64:
    """Return word ``coordinate`` of the sequence that starts at ``begin``."""
    return mix(begin + (np.uint64(coordinate) + _ONE) * GOLDEN)


@njit
def uniform(begin: np.uint64, coordinate: int) -> float:
    """Return word ``coordinate`` as a uniform in (0, 1)."""
    return chance(word(begin, coordinate))


@njit
def chance(word: np.uint64) -> float:
    """Return a word as a uniform in (0, 1): its first 53 bits plus a half; the largest is rounded down, not to 1."""
    return min((np.float64(word >> _11) + 0.5) * 2.0**-53, 1.0 - 2.0**-53)


@njit
def quantile(chance: float) -> float:
    """Return the standard normal quantile of a probability in (0, 1).

    Algorithm AS 241 (Wichura, Applied Statistics 37, 1988), relative error about 1e-15: one rational function for
    probabilities in [0.075, 0.925], and two others in the tails, which need a logarithm.
    """
    q = chance - 0.5
    if abs(q) <= _MIDDLE:
        return _central(q)
    r = np.sqrt(-log(min(chance, 1.0 - chance)))
    z = _ratio(r - 1.6, _TAIL, _TAIL_BELOW) if r <= 5.0 else _ratio(r - 5.0, _FAR, _FAR_BELOW)
    return z if q > 0.0 else -z


@njit
def quantiles(words: Words, out: Floats) -> None:
    """Convert words to standard normals, equal to ``quantile(chance(word))``; |z| <= 8.3.

    Several passes without branches replace one with branches: all words as if none were in a tail, then only the tails.
    """
    tails = np.empty(len(words))
    for k in range(len(words)):
        u = chance(words[k])
        tails[k] = min(u, 1.0 - u)
        out[k] = _central(u - 0.5)
    places = np.empty(len(words), dtype=np.int64)
    count = 0
    for k in range(len(words)):
        places[count] = k
        count += int(abs(tails[k] - 0.5) > _MIDDLE)
    r, z = np.empty(count), np.empty(count)
    for t in range(count):
        r[t] = tails[places[t]]
    for t in range(count):
        r[t] = np.sqrt(-log(r[t]))
    for t in range(count):
        z[t] = _ratio(r[t] - 1.6, _TAIL, _TAIL_BELOW)
    for t in range(count):
        size = z[t] if r[t] <= 5.0 else _ratio(r[t] - 5.0, _FAR, _FAR_BELOW)
        out[places[t]] = size if out[places[t]] > 0.0 else -size


@njit
def _central(q: float) -> float:
    return q * _ratio(0.180625 - q * q, _CENTRE, _CENTRE_BELOW)


@njit
def _ratio(x: float, above: Coefficients, below: Coefficients) -> float:
    a = above[7]
    b = below[7]
    for k in range(6, -1, -1):
        a = a * x + above[k]
        b = b * x + below[k]
    return a / b


@njit
def fill_normals(key: np.uint64, people: Indices, out: Floats) -> None:
    """Fill row i of ``out`` (C-contiguous) with the normals of person ``people[i]``."""
    width = out.shape[1]
    rows = max(1, CELLS // max(1, width))
    words = np.empty((min(rows, len(people)), width), dtype=np.uint64)
    for first in range(0, len(people), rows):
        batch = people[first : first + rows]
        fill_words(key, batch, words)
        cells = len(batch) * width
        quantiles(words.reshape(-1)[:cells], out[first : first + rows].reshape(-1))


@njit
def fill_words(key: np.uint64, people: Indices, out: Words) -> None:
    """Fill row i of ``out`` with the words of person ``people[i]``."""
    for i in range(len(people)):
        begin = start(key, people[i])
        for j in range(out.shape[1]):
            out[i, j] = word(begin, j)


def words_of(key: np.uint64, people: Indices, count: int) -> Words:
    """Return the first ``count`` words of each person, shape (n, count)."""
    words = np.empty((len(people), count), dtype=np.uint64)
    fill_words(key, people, words)
    return words


@njit
def fill_bits(key: np.uint64, people: Indices, special: Indices, chances: Floats, out: Bits) -> None:
    """Fill row i of ``out`` with the fair coins of person ``people[i]``, and its ``special`` places with biased ones.

    Args:
        special, chances: Shape (k,): the places that are not fair coins, and their probabilities of 1.
        out: Shape (n, d), uint8.
    """
    width = out.shape[1]
    words = (width + 63) // 64
    for i in range(len(people)):
        begin, row = start(key, people[i]), out[i]
        for k in range(words):
            coins = word(begin, k)
            block = row[64 * k : 64 * k + 64]
            for j in range(len(block)):
                block[j] = (coins >> np.uint64(j)) & _ONE
        for k in range(len(special)):
            row[special[k]] = uniform(begin, words + k) < chances[k]
