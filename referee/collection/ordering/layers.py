"""The seed of an order as it grows: whose secrets it is made of, and from which position on each of them counts.

*Nobody chooses.* The referee signs the hash of its secret in the run's configuration; the curator, which has seen that
hash alone, answers with a share in its terms; the order follows from both. The referee was bound before it saw the
share, and a curator gives its share, and its budget, to one configuration: with another secret there is no run. The
curator did not know the secret. So whichever of the two is honest, the order is as random as the honest one's part, and
nobody has seen it before the other was bound.

*A run's order is its own.* Orders are published when runs end, and a later run takes whom the earlier ones have left
over: it puts a secret of its own on top, a *layer*, which permutes the positions from there on. Let the first layer be
the permutation P_0 of 0..n-1, and a layer that begins at position s the permutation p -> s + P_s(p - s) of s..n-1,
applied before the layers below. Each maps the positions >= s to positions >= s, so positions before s are where they
were, and all layers together are one permutation of 0..n-1. To whom P_s is a random permutation, the agents at s..n-1
are in a uniformly random order whatever the layers below are: these tell who was asked already, and nothing else.

A seed is text, ``layer/layer/...``: a secret, with ``START:`` before it unless it is the first, and with ``+SHARE``
behind it where a curator has given one.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

_LAYER = re.compile(r"(?:([0-9]{1,10}):)?([^/:]*)", re.DOTALL)


class Layer(NamedTuple):
    """Positions ``start`` and later are permuted with ``key``: a secret, and the share of a curator."""

    start: int
    key: str


def read(seed: str) -> list[Layer]:
    """Return the layers of a seed, the lowest first.

    Raises
    ------
    ValueError
        If it is none: another first layer than one from 0 on, or layers that do not ascend.
    """
    layers = []
    for number, text in enumerate(seed.split("/")):
        found = _LAYER.fullmatch(text)
        if found is None or (found[1] is None) != (number == 0):
            raise ValueError(f"layer {number} of an order's seed is none")
        layers.append(Layer(int(found[1] or 0), found[2]))
    if any(after.start <= before.start for before, after in itertools.pairwise(layers)):
        raise ValueError("the layers of an order's seed do not ascend")
    return layers


def write(layers: list[Layer]) -> str:
    """Return the seed that :func:`read` reads."""
    return "/".join(key if number == 0 else f"{start}:{key}" for number, (start, key) in enumerate(layers))


def covered(seed: str, start: int, secret: str) -> str:
    """Return a seed with a layer on top for whoever is at position ``start`` or later.

    Nobody there was asked: a layer that begins there, or later, was used for nobody and is left out.
    """
    return write([*(layer for layer in read(seed) if layer.start < start), Layer(start, secret)])


def joined(seed: str, share: str | None) -> str:
    """Return a seed whose newest layer is made of a curator's share, too; the same seed without one."""
    return seed if share is None else f"{seed}+{share}"


def begins(seed: str) -> int:
    """Return where the newest layer begins."""
    return read(seed)[-1].start
