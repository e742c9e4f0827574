"""Tests and chance: what a test's own process draws follows from the test's name; what other processes draw is stated.

Parties draw secrets, seeds and noise for real people from the operating system. In the process of a test they are
drawn from the test's name, so that such a test ends alike each time. Processes that a test starts, and the keys of
libsodium and OpenSSL, draw from the operating system as ever: a test whose end depends on them says with
``pytest.mark.chance(p)`` that it fails with probability ``p`` at most, and why. By the union bound a run of all tests
then fails by chance with at most the sum, which must stay below :data:`MOST`.
"""

import os
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from zlib import crc32

import pytest

MOST = 1e-4
"""The probability with which one run of all tests may fail by chance."""


@contextmanager
def drawn_from(name: str) -> Iterator[None]:
    """Let what this process asks of the operating system's randomness follow from a name; UUIDs stay unique.

    Numba names temporary files of its cache by UUIDs: with equal ones, a worker would move away what another one wrote.
    """
    own, generator, process = os.urandom, random.Random(name), os.getpid()

    def urandom(size: int, /) -> bytes:
        of_uuid = sys._getframe(1).f_globals.get("__name__") == "uuid"
        return own(size) if of_uuid or os.getpid() != process else generator.randbytes(size)  # a fork draws for itself

    random.seed(name)
    if "numpy.random" in sys.modules:  # the generator of those who name none
        sys.modules["numpy.random"].seed(crc32(name.encode()))
    try:
        os.urandom = random._urandom = urandom  # type: ignore[attr-defined] # what secrets asks
        yield
    finally:
        os.urandom = random._urandom = own  # type: ignore[attr-defined]


def stated(items: Iterable[pytest.Item]) -> float:
    """Return the probability with which one of these tests fails by chance, by what they state and the union bound."""
    return sum(float(mark.args[0]) for item in items for mark in item.iter_markers("chance"))
