"""The source's coin flips are exact, by the definition on 53 bits, and take a word each."""

from __future__ import annotations

import numpy as np
import pytest

from common.core.arrays import Words
from common.numerics.randomness import RandomSource
from tests.tiers import for_each


class Scripted(RandomSource):
    """A source whose words are written down beforehand."""

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


@for_each("probability", [0.0, 2.0**-20, 0.5, 0.75, 1.0])
def test_words_are_consumed_by_the_number_of_coins_alone(probability: float) -> None:
    """Whatever comes: an earlier sampler drew further words where the first sixteen bits tied with the threshold."""
    source = Scripted([int(probability * 2.0**53) << 11 & (1 << 64) - 1] * 100_000)
    source.bernoullis(probability, 100_000)
    with pytest.raises(AssertionError):
        source.words(1)


@for_each(("probability", "bit"), [(0.0, 0), (2.0**-54, 0), (1.0, 1)])
def test_certain_outcomes(probability: float, bit: int) -> None:
    assert set(RandomSource.seeded(1).bernoullis(probability, 200_000).tolist()) == {bit}


@for_each("probability", [1e-5, 0.2, 0.5, 0.731058578630005, 1 - 1e-5])
def test_frequency(probability: float) -> None:
    ones = int(RandomSource.seeded(5).bernoullis(probability, 1_000_000).sum())
    # 6 standard deviations: 2e-9.
    assert ones == pytest.approx(1e6 * probability, abs=6 * (1e6 * probability * (1 - probability)) ** 0.5 + 1)


def test_words_are_the_keystream_whatever_the_pieces() -> None:
    whole = RandomSource.seeded(2).words(100_000)
    pieces = RandomSource.seeded(2)
    np.testing.assert_array_equal(whole, np.concatenate([pieces.words(k) for k in (1, 32_767, 32_769, 34_463)]))


@for_each("probability", [-0.1, 1.1, float("nan")])
def test_refuses_what_is_no_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        RandomSource.seeded(1).bernoullis(probability, 1)
