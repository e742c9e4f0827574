"""Keystreams against published vectors and plain references; searches end on a value that was checked; functions."""

import math
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from common.core.arrays import Words
from common.numerics import counter, elementary, loops
from common.numerics.bisection import between, crossing, largest, least, lesser
from common.numerics.chacha import fill
from common.numerics.kernels import njit, njit_inlined
from common.numerics.randomness import RandomSource
from tests.tiers import for_each


@given(st.integers(1, 300), st.lists(st.integers(0, 299), max_size=40), st.sampled_from((0, (1 << 32) - 300)))
def test_numbers_are_distinct_if_their_set_is_as_large(most, numbers, least):
    found = np.array([least + number % most for number in numbers], dtype=np.int64)
    assert loops.all_distinct(found) == (len(set(found.tolist())) == len(found))


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


class Scripted(RandomSource):
    def __init__(self, words: list[int]) -> None:
        super().__init__(bytes(32), simulated=True)
        self._script = np.array(words, dtype=np.uint64)

    def words(self, count: int) -> Words:
        found, self._script = self._script[:count], self._script[count:]
        assert len(found) == count
        return found


def test_the_first_53_bits_of_a_word_decide() -> None:
    threshold = (40_000 << 37) + 12_345
    source = Scripted([(threshold - 1) << 11 | 2047, threshold << 11, 0, (1 << 64) - 1, (threshold + 1) << 11])
    assert source.bernoullis(threshold / 2.0**53, 5).tolist() == [1, 0, 1, 0, 0]


@for_each("probability", [2.0**-20, 0.75, 1.0])
def test_words_are_consumed_by_the_number_of_coins_alone(probability: float) -> None:
    """Whatever comes: an earlier sampler drew further words where the first sixteen bits tied with the threshold."""
    source = Scripted([int(probability * 2.0**53) << 11 & (1 << 64) - 1] * 100_000)
    source.bernoullis(probability, 100_000)
    with pytest.raises(AssertionError):
        source.words(1)


def test_words_are_the_keystream_whatever_the_pieces() -> None:
    whole = RandomSource.seeded(2).words(100_000)
    pieces = RandomSource.seeded(2)
    np.testing.assert_array_equal(whole, np.concatenate([pieces.words(k) for k in (1, 32_767, 32_769, 34_463)]))


@for_each(
    ("call", "says"),
    [
        *((partial(RandomSource.seeded(1).bernoullis, p, 1), "probability") for p in (-0.1, 1.1, float("nan"))),
        *((partial(counter.stream, seed, 0), "seed must be in") for seed in (-1, 1 << 64)),
        *((partial(RandomSource.seeded(1).integers, bound, 1), "bound must be in") for bound in (0, (1 << 62) + 1)),
        (partial(RandomSource, bytes(31), simulated=True), "32 bytes"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


MASK = (1 << 64) - 1
PEOPLE = np.array([0, 1, 2, 5, 10**6, 2**40], dtype=np.int64)


def plain_mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def plain_word(seed: int, stream: int, person: int, coordinate: int) -> int:
    key = plain_mix(plain_mix(seed) ^ stream)
    begin = plain_mix(key ^ plain_mix((person * 0x9E3779B97F4A7C15 + 1) & MASK))
    return plain_mix((begin + (coordinate + 1) * 0x9E3779B97F4A7C15) & MASK)


def words(seed: int, stream: int, people: np.ndarray, count: int) -> np.ndarray:
    out = np.empty((len(people), count), dtype=np.uint64)
    counter.fill_words(counter.stream(seed, stream), people, out)
    return out


def normals(seed: int, stream: int, people: np.ndarray, count: int) -> np.ndarray:
    out = np.empty((len(people), count))
    counter.fill_normals(counter.stream(seed, stream), people, out)
    return out


def test_the_finalizer_gives_the_published_splitmix64_sequence():
    # First outputs of SplitMix64 started at 1234567.
    golden = 0x9E3779B97F4A7C15
    found = [int(counter.mix(np.uint64((1234567 + (j + 1) * golden) & MASK))) for j in range(3)]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@for_each("seed", [0, 7, MASK])
def test_words_are_the_hash_of_seed_stream_person_and_coordinate(seed):
    expected = [[plain_word(seed, 3, int(i), j) for j in range(9)] for i in PEOPLE]
    assert words(seed, 3, PEOPLE, 9).tolist() == expected


def test_the_quantile_is_right_in_the_centre_and_in_both_tails():
    chances = np.concatenate([np.logspace(-16, -1, 400), np.linspace(0.01, 0.5, 101)])
    lower = np.array([counter.quantile(chance) for chance in chances])
    np.testing.assert_allclose(lower, ndtri(chances), rtol=1e-13, atol=1e-15)
    # 1 - chance is exact for these, so symmetry must be exact too.
    exact = np.array([0.5, 0.25, 2.0**-10, 2.0**-30, 2.0**-53])
    upper = np.array([counter.quantile(1.0 - chance) for chance in exact])
    np.testing.assert_array_equal(upper, [-counter.quantile(chance) for chance in exact])


def test_normals_of_many_words_are_bit_for_bit_those_of_single_ones():
    # Both ends of every branch: the first and last words, the borders of the tails, and the far tail.
    borders = [int(chance * 2**64) + step for chance in (2e-11, 0.075, 0.5, 0.925, 1 - 2e-11) for step in (-4096, 0)]
    drawn = np.concatenate([words(8, 0, np.arange(3000), 3).ravel(), np.array([0, MASK, *borders], dtype=np.uint64)])
    found = np.empty(len(drawn))
    counter.quantiles(drawn, found)
    assert found.tolist() == [counter.quantile(counter.chance(word)) for word in drawn]
    assert np.abs(found).max() < 8.5


@for_each("width", [1, 7, 40, 5000])
def test_normals_are_quantiles_of_the_words_in_whatever_order_people_are_drawn(width):
    uniforms = ((words(5, 0, PEOPLE, width) >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    np.testing.assert_allclose(normals(5, 0, PEOPLE, width), ndtri(uniforms), rtol=1e-12)
    np.testing.assert_array_equal(normals(5, 0, PEOPLE[::-1], width), normals(5, 0, PEOPLE, width)[::-1])


CODE = """
import numpy as np
from common.numerics.kernels import fma, njit, njit_exact

plain = njit(lambda a, b, c: a * b + c)
caller = njit_exact(lambda a, b, c: plain(a, b, c))
fused = njit(lambda a, b, c: fma(a, b, c))
# a a = 1 + 2^-11 + 2^-24, of which single precision has no room for the last part.
a, c = np.float32(1.0 + 2.0**-12), np.float32(-(1.0 + 2.0**-11))
print([float(function(a, a, c)) for function in (caller, plain, fused)])
"""


@pytest.mark.slow
def test_a_function_does_not_take_over_the_arithmetic_of_its_first_caller(tmp_path: Path) -> None:
    """In a process of its own, where nothing is compiled yet."""
    script = tmp_path / "loops.py"
    script.write_text(CODE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{[0.0, 0.0, 2.0**-24]}\n"


@njit_inlined
def _halved(x: float) -> float:
    return x / 2.0


@njit
def _quartered(x: float) -> float:
    return _halved(_halved(x))


def test_an_inlined_function_is_compiled_without_a_way_in_and_can_be_called_all_the_same() -> None:
    """What loops take in has no wrapper; a call from the interpreter must never meet that one, whichever came first."""
    assert (_quartered(12.0), _halved(3.0), _quartered(1.0)) == (3.0, 1.5, 0.25)
    assert _halved.within.targetoptions["no_cpython_wrapper"]  # type: ignore[attr-defined]
    assert "no_cpython_wrapper" not in _halved.compiled.targetoptions  # type: ignore[attr-defined]


BOUNDS = st.floats(1e-300, 1e300)


def recorded(holds: Callable[[float], bool]) -> tuple[Callable[[float], bool], set[float]]:
    held: set[float] = set()

    def ask(value: float) -> bool:
        if holds(value):
            held.add(value)
        return value in held

    return ask, held


@given(bound=BOUNDS, first=st.floats(1e-3, 1e3))
def test_the_largest_value_was_checked_and_lies_within_the_width(bound, first):
    ask, held = recorded(lambda value: value <= bound)
    found = largest(ask, first, 1e-9)
    assert found in held
    assert bound * (1.0 - 1.001e-9) <= found <= bound


@given(bound=BOUNDS)
def test_the_good_side_may_be_above(bound):
    good = 4.0 * bound
    ask, held = recorded(lambda value: value >= bound)
    found = between(good, 0.0, ask, 1e-12)
    assert found in held | {good}
    assert bound <= found <= bound * (1.0 + 1.001e-12)


def test_a_width_of_nothing_ends_at_neighbouring_doubles():
    assert between(1.0, 2.0, lambda value: value * value <= 2.0, 0.0) == math.nextafter(math.sqrt(2.0), 0.0)
    assert between(0.0, 1.0, lambda value: False, 0.0) == 0.0


def test_what_is_noisy_near_the_bound_still_ends_on_a_value_that_was_checked():
    ask, held = recorded(lambda value: value < 1.0 or (value < 1.001 and int(value * 1e9) % 3 == 0))
    assert largest(ask, 0.3, 1e-12) in held


def test_values_beyond_the_limit_are_not_tried():
    ask, held = recorded(lambda value: True)
    assert 4.0 <= largest(ask, 1.0, 1e-6, limit=8.0) == max(held) < 8.0


@given(bound=st.integers(0, 10**15), first=st.integers(0, 1000))
def test_the_least_integer(bound, first):
    assert least(lambda value: value >= bound, first) == max(bound, first)


def test_no_integer_up_to_the_most():
    assert least(lambda value: value >= 100, 1, most=128) == 100
    with pytest.raises(LookupError, match="nothing up to 64"):
        least(lambda value: value >= 100, 1, most=64)


@given(bound=st.integers(1, 10**12), more=st.floats(1.0, 50.0), first=st.integers(1, 10**6), share=st.floats(1e-4, 0.1))
def test_a_lesser_number_holds_and_one_less_by_a_share_does_not(bound, more, first, share):
    good, asked = math.ceil(more * max(bound, first)), []

    def holds(value: int) -> bool:
        asked.append(value)
        return value >= bound

    found = lesser(holds, good, first, share)
    assert max(bound, first) <= found <= max(bound, first) * (1.0 + 2.0 * share) + 2
    assert found in (good, *asked)
    assert min(asked, default=first) >= first
    asked.clear()
    assert lesser(lambda value: holds(value) and value == good, good, 1, share) == good
    assert len(asked) <= 2  # where a share less does not hold few others are asked


SHAPES: list[tuple[str, Callable[[float], float], float]] = [
    ("straight", lambda x: x - 3.0, 3.0),
    ("steep", lambda x: math.expm1(20.0 * (x - 3.0)), 3.0),
    ("flat", lambda x: (x - 3.0) ** 3, 3.0),
    ("a step", lambda x: -1.0 if x <= math.pi else 1e6, math.pi),
]


@for_each(("name", "excess", "root"), SHAPES, ids=[shape[0] for shape in SHAPES])
def test_it_ends_just_below_the_root(name: str, excess: Callable[[float], float], root: float) -> None:
    asked: list[float] = []

    def counted(x: float) -> float:
        asked.append(x)
        return excess(x)

    found = crossing(2.0, 4.0, counted, 1e-8)
    assert found in asked
    assert root * (1.0 - 2e-8) <= found <= root
    assert len(asked) < {"straight": 12, "steep": 60}.get(name, 100)
    assert 3.0 <= crossing(5.0, 1.0, lambda x: 3.0 - x, 1e-9) <= 3.0 * (1.0 + 1e-8)  # downwards as well


RANDOM = np.random.default_rng(0)


@for_each("x", [RANDOM.uniform(-708, 709, 20_000), RANDOM.uniform(-2, 2, 20_000), np.zeros(1)])
def test_exponentials(x):
    found = elementary.exp(x)
    assert (np.abs(found - np.exp(x)) <= np.spacing(np.exp(x))).all()
    np.testing.assert_array_equal(found, loops.exps(x))


def test_exponentials_end_in_zero_and_infinity():
    x = np.array([-1e9, -745.2, -745.0, 710.0, 1e9])
    expected = [0.0, 0.0, 5e-324, np.inf, np.inf]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(elementary.exp(x), expected)
    np.testing.assert_array_equal(loops.exps(x), expected)


@for_each("x", [np.exp(RANDOM.uniform(-708, 709, 20_000)), RANDOM.uniform(0.5, 2, 20_000), np.array([2.0**-1022, 1.0])])
def test_logarithms(x):
    found = elementary.log(x)
    assert (np.abs(found - np.log(x)) <= np.spacing(np.abs(np.log(x)))).all()
    np.testing.assert_array_equal(found, loops.logs(x))


def test_turns_and_cosines_of_any_angle():
    x = np.concatenate([RANDOM.uniform(-1, 1, 20_000), np.arange(-8, 9) / 8])
    for found, function in zip(elementary.turned(x), (np.cos, np.sin), strict=True):
        np.testing.assert_allclose(found, function(2 * np.pi * x), rtol=0, atol=1e-15)
    np.testing.assert_allclose(elementary.cosine(1000 * x), np.cos(1000 * x), rtol=0, atol=1e-12)
