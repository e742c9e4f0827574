"""The source's coin flips are exact: fast sixteen-bit decisions against the definition on 53 bits."""

from __future__ import annotations

import numpy as np
import pytest

from common.numerics.randomness import RandomSource


class Scripted(RandomSource):
    """A source whose keystream is written down beforehand."""

    def __init__(self, coarse: list[int], fine: list[int]) -> None:
        super().__init__(bytes(32), simulated=True)
        self._scripts = [
            np.array(coarse, dtype=np.uint16).view(np.uint8),
            np.array(fine, dtype=np.uint64).view(np.uint8),
        ]

    def _keystream(self, size: int) -> np.ndarray:
        script = self._scripts.pop(0)
        assert len(script) == size
        return script


def test_ties_are_decided_by_the_remaining_bits() -> None:
    threshold = (40_000 << 37) + 12_345
    source = Scripted([39_999, 40_000, 40_000, 40_001, 40_000], [12_344 << 27, 12_345 << 27, 12_346 << 27])
    assert source.bernoullis(threshold / 2.0**53, 5).tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize(("probability", "bit"), [(0.0, 0), (2.0**-54, 0), (1.0, 1)])
def test_certain_outcomes(probability: float, bit: int) -> None:
    assert set(RandomSource.seeded(1).bernoullis(probability, 200_000).tolist()) == {bit}


@pytest.mark.parametrize("probability", [1e-5, 0.2, 0.5, 0.731058578630005, 1 - 1e-5])
def test_frequency(probability: float) -> None:
    ones = int(RandomSource.seeded(5).bernoullis(probability, 1_000_000).sum())
    # 6 standard deviations: 2e-9.
    assert ones == pytest.approx(1e6 * probability, abs=6 * (1e6 * probability * (1 - probability)) ** 0.5 + 1)


def test_words_are_the_keystream_whatever_the_pieces() -> None:
    whole = RandomSource.seeded(2).words(100_000)
    pieces = RandomSource.seeded(2)
    np.testing.assert_array_equal(whole, np.concatenate([pieces.words(k) for k in (1, 32_767, 32_769, 34_463)]))


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_refuses_what_is_no_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        RandomSource.seeded(1).bernoullis(probability, 1)
