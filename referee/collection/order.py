"""The committed random order of agents: a keyed permutation of 0..size-1 that needs no memory.

A balanced Feistel network over the smallest even number of bits that covers ``size``, with cycle walking; eight rounds
of a 64-bit mixer keyed from SHA-256 of the seed. The referee publishes SHA-256(seed) before any agent answers and the
seed when the run ends, so that nobody can pick a batch by its answers, and everybody can check that nobody did.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from common.core import canonical
from common.core.arrays import Indices, Words
from common.net.messages import OrderCommitment

_ROUNDS = 8


class _Network:
    """One keyed permutation of 0..size-1."""

    def __init__(self, key: str, size: int) -> None:
        self.size = size
        self.half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._mask = (np.uint64(1) << self.half) - np.uint64(1)
        stream = hashlib.shake_256(f"tandem order {key}".encode()).digest(8 * _ROUNDS)
        self.keys = np.frombuffer(stream, dtype="<u8").astype(np.uint64)

    def apply(self, values: Words) -> Words:
        return self._walk(values, self._permute)

    def invert(self, values: Words) -> Words:
        return self._walk(values, self._undo)

    def _walk(self, values: Words, step: Callable[[Words], Words]) -> Words:
        values = step(values)
        outside = np.flatnonzero(values >= np.uint64(self.size))
        while outside.size:
            values[outside] = step(values[outside])
            outside = outside[values[outside] >= np.uint64(self.size)]
        return values

    def _permute(self, values: Words) -> Words:
        left, right = values >> self.half, values & self._mask
        for key in self.keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << self.half) | right

    def _undo(self, values: Words) -> Words:
        left, right = values >> self.half, values & self._mask
        for key in self.keys[::-1]:
            left, right = right ^ (_mix(left ^ key) & self._mask), left
        return (left << self.half) | right


class Order:
    """A permutation of ``size`` agents, 1..2^32; ValueError if it is another, or the seed is none of so many agents.

    Any string without "/" and ":" is a seed of one layer.
    """

    def __init__(self, seed: str, size: int) -> None:
        if not 1 <= size <= 1 << 32:
            raise ValueError(f"size must be in 1..2^32, got {size}")
        self.size = size
        found = read_layers(seed)
        if found[-1].start >= size:
            raise ValueError(f"a layer of the order's seed begins behind its {size} agents")
        self._layers = [(layer.start, _Network(layer.key, size - layer.start)) for layer in found]

    def slice(self, start: int, count: int) -> Indices:
        """Return the agents at positions start..start+count-1 of the order, int64."""
        values = np.arange(start, min(start + count, self.size), dtype=np.uint64)
        for begin, network in reversed(self._layers):
            inside = values >= np.uint64(begin)
            values[inside] = np.uint64(begin) + network.apply(values[inside] - np.uint64(begin))
        return values.astype(np.int64)

    def position(self, agent: int) -> int:
        """Return the position of an agent: the inverse of :meth:`slice`."""
        values = np.array([agent], dtype=np.uint64)
        for begin, network in self._layers:
            if values[0] >= begin:
                values = np.uint64(begin) + network.invert(values - np.uint64(begin))
        return int(values[0])


def simulated(seed: int) -> str:
    """Return the seed of the order in a simulated run with a public seed."""
    return hashlib.sha256(f"order {seed}".encode()).hexdigest()


def commitment(seed: str) -> str:
    """Return SHA-256 of the seed, hex: what is published before the order is used."""
    return hashlib.sha256(f"tandem order {seed}".encode()).hexdigest()


def public_randomness(scenario: dict[str, Any], order: Iterable[OrderCommitment]) -> int:
    """Return public randomness of a run, below 2^60: from its scenario and the commitments to the agents' order.

    Fixed before anybody answers; where people are real the seeds committed to are secret random ones, so nobody knows
    it before the agents are enrolled. The privacy of no party rests on it.
    """
    agreed = [scenario, [promised.wire() for promised in order]]
    return int(canonical.digest(agreed)[:15], 16)


def _mix(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_LAYER = re.compile(r"(?:([0-9]{1,10}):)?([^/:]*)", re.DOTALL)


class Layer(NamedTuple):
    """Positions ``start`` and later are permuted with ``key``: a secret, and the share of a curator."""

    start: int
    key: str


def read_layers(seed: str) -> list[Layer]:
    """Return the layers of a seed, which ascend from 0; ValueError if it is none."""
    layers = []
    for number, text in enumerate(seed.split("/")):
        found = _LAYER.fullmatch(text)
        if found is None or (found[1] is None) != (number == 0):
            raise ValueError(f"layer {number} of an order's seed is none")
        layers.append(Layer(int(found[1] or 0), found[2]))
    if any(after.start <= before.start for before, after in itertools.pairwise(layers)):
        raise ValueError("the layers of an order's seed do not ascend")
    return layers


def write_layers(layers: list[Layer]) -> str:
    """Return the seed that :func:`read_layers` reads."""
    return "/".join(key if number == 0 else f"{start}:{key}" for number, (start, key) in enumerate(layers))


def add_layer(seed: str, start: int, secret: str) -> str:
    """Return a seed with a layer on top for whoever is at position ``start`` or later.

    Nobody there was asked: a layer that begins there, or later, was used for nobody and is left out.
    """
    return write_layers([*(layer for layer in read_layers(seed) if layer.start < start), Layer(start, secret)])


def join_share(seed: str, share: str | None) -> str:
    """Return a seed whose newest layer is made of a curator's share, too; the same seed without one."""
    return seed if share is None else f"{seed}+{share}"


def newest_start(seed: str) -> int:
    """Return where the newest layer begins."""
    return read_layers(seed)[-1].start
