"""Recheck a certificate of steps whose neighbours are chosen anew each time: play some of the game.

The claim is an upper bound on what any adversary reaches (docs/accounting.md, Theorem 4). Here is what adversaries
*do* reach that choose among exact triples on the circle of diameter u: before each of the first steps, and then before
each of ever longer blocks. It is below the claim if the claim is true; it is above claims that are too small by more
than a few parts in a hundred of epsilon, which is what the claim's cover and the longer blocks leave between them.
Nothing is rounded outwards.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from common.numerics.special import ndtr

Floats = NDArray[np.float64]

TRIPLES = tuple(
    (opening, share)
    for opening, shares in ((0.0, (-1.0, -0.95, -0.8, -0.4, 0.0, 0.4, 0.8, 0.95, 1.0)), (0.6, (-1.0, 0.0, 1.0)))
    for share in shares
)
"""B and C are ``opening`` short of opposite; A is on the far arc, from opposite of B to opposite of C."""

SINGLE = 150
"""Steps before blocks grow."""


def delta_of_game(s: float, u: float, steps: int, epsilon: float, width: float) -> float:
    """Return what such an adversary reaches at epsilon; ``width`` is that of the losses' grid."""
    laws = [_law(s, u, opening, share, width) for opening, share in TRIPLES]
    deviation = s * math.sqrt(math.expm1(u * u) * steps)
    first, last = -math.ceil((3.0 * deviation + 0.2) / width), math.ceil((epsilon + 2.0 * deviation + 0.2) / width)
    x = width * np.arange(first, last + 1)
    reached, done = _stopped(x), 0
    while done < steps:
        block = 1 if done < SINGLE else min(steps - done, done // 8)
        side = math.ceil(10.0 * deviation * math.sqrt(block / steps) / width) + max(len(law) // 2 for law in laws)
        points = next_fast_len(len(x) + 2 * side, real=True)
        padded = np.full(points, reached[-1])
        padded[side : side + len(x)] = reached
        padded[:side] = _stopped(x[0] - width * np.arange(side, 0, -1.0)) + reached[0] - _stopped(x[:1])
        spectrum, best = rfft(padded), np.zeros(len(x))
        for law in laws:
            half = len(law) // 2
            turned = np.zeros(points)
            turned[: half + 1], turned[-half:] = law[half:], law[:half]
            best = np.maximum(best, irfft(spectrum * rfft(turned) ** block, points)[side : side + len(x)])
        reached, done = best, done + block
    return float(np.interp(epsilon, x, reached))


def _stopped(x: Any) -> Floats:
    return np.asarray(np.maximum(1.0 - np.exp(x), 0.0), dtype=np.float64)


def _law(s: float, u: float, opening: float, share: float, width: float) -> Floats:
    """Return the law of one step's loss under P, on multiples of the width, by the chords of both profiles."""
    half = opening / 2.0
    b = np.array([math.sin(half), math.cos(half)]) * u / 2.0
    c, turn = np.array([b[0], -b[1]]), share * (math.pi - opening) / 2.0
    a = -np.array([math.cos(turn), math.sin(turn)]) * u / 2.0
    ahead, behind = _masses(s, b - a, c - a, width), _masses(s, c - a, b - a, width)
    reach = max(len(ahead), len(behind))
    law = np.zeros(2 * reach + 1)
    law[reach + 1 : reach + 1 + len(ahead)] = ahead
    losses = width * np.arange(1, len(behind) + 1)
    law[reach - len(behind) : reach] = (behind * np.exp(-losses))[::-1]
    law[reach] = 1.0 - law.sum()
    return law


def _masses(s: float, b: Floats, c: Floats, width: float) -> Floats:
    """Return the masses at width, 2 width, ... of the law on the side where B counts for, and C against."""
    far = s * np.expm1(np.linalg.norm(b) * (np.linalg.norm(b) + 8.0))
    last = max(4, math.ceil(math.log1p(far) / width))
    places = np.unique(np.round(np.concatenate([np.arange(30.0), np.geomspace(30.0, max(last, 31), 160)]))).astype(int)
    levels = np.exp(width * places)
    heights = np.array([_height(s, b, c, level) for level in levels])
    slopes = np.append(np.diff(heights) / np.diff(levels), 0.0)
    found = np.zeros(places[-1])
    found[places[1:] - 1] = np.maximum(np.diff(slopes), 0.0) * levels[1:]
    return found


def _height(s: float, b: Floats, c: Floats, level: float) -> float:
    """Return the mean of s (L_B - (1-s)(a-1)/s - a L_C)_+ under A, given the coordinate along b, on 400 nodes."""
    size = float(np.linalg.norm(b))
    along = float(b @ c) / size if size > 1e-6 else 0.0
    across = math.sqrt(max(float(c @ c) - along * along, 1e-8))
    z = np.linspace(-9.0 + min(0.0, along), 9.0 + max(size, along), 400)
    mine = np.exp(size * z - size * size / 2.0) - (1.0 - s) * (level - 1.0) / s
    theirs = level * np.exp(along * z - along * along / 2.0)
    d = np.log(np.maximum(mine, 1e-300) / theirs) / across + across / 2.0
    gain = np.where(mine > 0.0, mine * ndtr(d) - theirs * ndtr(d - across), 0.0)
    weights = np.exp(-z * z / 2.0) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
    return s * float(weights @ np.maximum(gain, 0.0))
