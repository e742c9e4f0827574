"""Noise of very many people at once, each of whom has a stream of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common.core.arrays import AnyArray, Indices, Words
from common.numerics.randomness import RandomSource

MOST = 1 << 15
"""People at once, at most: so many that a source draws coins for in one piece."""
_AHEAD = 16


class NotOneEach(Exception):
    """Something else than one number a person was asked for: whoever asked must draw for each person alone."""


class OwnNoise(RandomSource):
    """A source of n numbers, of which number i comes from person i's own stream, as if they drew alone.

    Parameters
    ----------
    streams
        One a person, not used before; at most :data:`MOST`.
    """

    def __init__(self, streams: Sequence[RandomSource]) -> None:
        super().__init__(bytes(32), simulated=streams[0].simulated)
        self._streams = streams
        self._ahead: list[Words] = []
        self._next = np.zeros(len(streams), dtype=np.int64)

    def derive(self, *labels: str | int) -> RandomSource:
        """Refuse: what is derived belongs to nobody."""
        raise NotOneEach

    def words(self, count: int) -> Words:
        """Return each person's next word.

        Raises
        ------
        NotOneEach
            If there are fewer or more people.
        """
        if count != len(self._streams):
            raise NotOneEach
        return self._of(np.arange(count))

    def integers(self, bound: int, count: int) -> Indices:
        """Return an integer below ``bound`` for each person, as :meth:`RandomSource.integers` does for one."""
        drawn = self.words(count)
        limit = np.uint64(((1 << 64) // bound) * bound - 1)
        bad = np.flatnonzero(drawn > limit)
        while bad.size:
            drawn[bad] = self._of(bad)
            bad = bad[drawn[bad] > limit]
        return (drawn % np.uint64(bound)).astype(np.int64)

    def _keystream(self, size: int) -> AnyArray:
        raise NotOneEach

    def _of(self, people: Indices) -> Words:
        places = self._next[people]
        while places.max(initial=0) >= _AHEAD * len(self._ahead):
            self._ahead.append(np.stack([stream.words(_AHEAD) for stream in self._streams]))
        self._next[people] += 1
        found = np.empty(len(people), dtype=np.uint64)
        for number, ahead in enumerate(self._ahead):
            here = places // _AHEAD == number
            found[here] = ahead[people[here], places[here] % _AHEAD]
        return found
