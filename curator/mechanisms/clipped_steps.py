"""Private gradient steps: one fresh draw, one clipped gradient and one Gaussian vector a step, everything released."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np

from common.core.arrays import AnyArray, Floats
from common.core.errors import BadInput
from common.core.machine import processors
from common.numerics.randomness import RandomSource
from curator.mechanisms.gaussian_noise import FINE_GRID, GRID, fine_normals, normals
from curator.mechanisms.gradient_steps import LOSSES, Rule, coordinates, descend
from curator.sample.rows import GatheredRows
from curator.sample.sampling import Sampler

SHRINK = 2.0**-32
"""Gradients are clipped to this share less than ``clip``, so that rounding errors cannot take one beyond it."""
SINGLE_SHRINK = 2.0**-10
"""The same in single precision, whatever the order in which up to :data:`_MAX_SINGLE` squares are added."""
_MAX_SINGLE = 1 << 13
_MIN_SINGLE = 64  # coordinates from which on single precision is faster
_DITHER = 2.0**-20
"""Single precision needs noise that moves a coordinate by this share of its range: eight of its last places."""
_ROOM = 8.0  # the grid is fine enough if the clip has this many cells for the square root of the width
_CELLS = 1 << 19  # coordinates in a block: draws, noise and their blocks ahead stay in the third-level cache
_MANY_CELLS = 3 << 19
"""The same in single precision: records are long then and stay where they are, and a block is little but noise."""


@dataclass(frozen=True)
class ClippedSteps:
    """Projected gradient descent with clipped gradients and Gaussian noise (Algorithm 3 of Kohen & Sheffet).

    Each step is the Gaussian mechanism on one draw: a gradient of L2 norm L = ``clip`` at most, and noise of standard
    deviation ``noise`` L in every coordinate. What is made of it is post-processing.

    With noise, gradient and noise are whole multiples of one public unit, sigma / 2^11 (or sigma / 2^26 where
    the noise is so large that a gradient would be lost in a cell): see :mod:`curator.mechanisms.gaussian_noise`. Before
    it is rounded, a gradient is clipped to L less half a unit times sqrt(dim), so that rounding cannot take it
    beyond L. What a step does to the iterate before it is scaled is then a multiple of the unit.

    Where there are many coordinates, the iterate is kept in single precision. Gradient and noise are whole numbers
    there, too, and their sum is exact. Iterates are rounded, and moves could get lost in that; so it is done only where
    the noise of the last step still reaches eight last places of the largest coordinate that there can be. Rounding
    errors then have no bias, and add less than 2e-3 to the noise's variance. Iterates are summed up in single precision
    within a block, and blocks in double. Attributes are those of :class:`common.learners.half_spaces.OpenSgd`.
    """

    loss: Literal["logistic", "hinge", "perceptron"]
    steps: int
    clip: float
    noise: float
    diameter: float
    domain: Literal["ball", "box"]
    regularization: float
    lasso: float
    intercept: float
    start: float
    output: Literal["average", "suffix", "last"]

    @property
    def ratio(self) -> Fraction:
        """U = 2 L / sigma = 2 / noise, exactly: how far apart two gradients can be, in units of the noise.

        Raises:
            ZeroDivisionError: Without noise.
        """
        return 2 / Fraction(self.noise)

    def run(self, sampler: Sampler, source: RandomSource, first: Floats) -> Floats:
        """Return what ``output`` asks for of the iterates, shape (width,).

        Draws and noise are prepared ahead in blocks, each from a source of its own.

        Args:
            first: The iterate to begin with, public, shape (width,).
        """
        width = sampler.dimension + (self.intercept != 0.0)
        start = np.full(width, self.start)
        rule = self.rule(width)
        away, part = (coordinates(width, np.float32 if self.single(width) else np.float64) for _ in range(2))
        away[:] = first - start
        total = np.zeros(width)
        done = 0
        for draws, noise in self._blocks(sampler, source, width):
            descend(draws, noise, away, part, done, rule)
            total += part
            part[:] = 0.0
            done += draws.size
            del draws, noise  # the next block's then take their memory, which is in the cache
        return np.asarray(start + total / (self.steps - rule.burn))

    def grid(self, width: int) -> int:
        """Return the grid's cells per standard deviation of the noise."""
        return GRID if GRID / self.noise >= _ROOM * math.sqrt(width) else FINE_GRID

    def single(self, width: int) -> bool:
        """Return whether the iterate can be kept in single precision; see the class."""
        plain = self.lasso == 0.0 and self.regularization == 0.0
        if self.noise == 0.0 or self.grid(width) != GRID or not plain or not _MIN_SINGLE <= width <= _MAX_SINGLE:
            return False
        reach = 0.5 * self.diameter if self.domain == "ball" else 1.0
        moved = self._scale(width) / math.sqrt(self.steps) * self.noise * self.clip
        return GRID / self.noise <= 1 << 22 and moved >= _DITHER * reach

    def _scale(self, width: int) -> float:
        return self.diameter / math.sqrt(self.clip**2 + (self.noise * self.clip) ** 2 * width)

    def rule(self, width: int) -> Rule:
        """Return what the compiled loop is told.

        Raises:
            BadInput: If there is so much noise that nothing is left of a gradient on the grid.
        """
        sigma = self.noise * self.clip
        unit, clip = 1.0, self.clip
        if self.noise > 0.0:
            unit = sigma / self.grid(width)
            shrink = SINGLE_SHRINK if self.single(width) else SHRINK
            clip = self.grid(width) / self.noise * (1.0 - shrink) - 0.5 * math.sqrt(width)
            if not clip > 0.0:
                raise BadInput(f"noise = {self.noise:g} leaves nothing of a gradient of {width} coordinates")
        return Rule(
            loss=LOSSES.index(self.loss),
            intercept=self.intercept,
            start=self.start,
            unit=unit,
            clip=clip,
            scale=self._scale(width),
            regularization=self.regularization,
            lasso=self.lasso or None,
            radius=None if self.domain == "box" else 0.5 * self.diameter,
            burn={"average": 0, "suffix": self.steps // 2, "last": self.steps - 1}[self.output],
        )

    def _blocks(
        self, sampler: Sampler, source: RandomSource, width: int
    ) -> Iterator[tuple[GatheredRows, AnyArray | None]]:
        """Yield draws with their noise."""
        size = max(1, (_MANY_CELLS if self.single(width) else _CELLS) // width)

        def prepare(block: int) -> tuple[GatheredRows, AnyArray | None]:
            count = min(size, self.steps - block * size)
            words = source.derive("draws", block)
            draws = sampler.located(count, words)
            return draws, self._noise((count, width), words)

        return prefetch(prepare, -(-self.steps // size))

    def _noise(self, shape: tuple[int, int], source: RandomSource) -> AnyArray | None:
        if self.noise == 0.0:
            return None
        draw = normals if self.grid(shape[1]) == GRID else fine_normals
        return draw(math.prod(shape), source).reshape(shape)


T = TypeVar("T")
_FEW = 8  # up to so many items are not worth waking other threads for


def prefetch(prepare: Callable[[int], T], count: int) -> Iterator[T]:
    """Yield ``prepare(0), ..., prepare(count - 1)``, each prepared by a thread while the caller uses earlier ones.

    The caller's own thread prepares, too, where it would have to wait: with the pool's threads, one fewer than there
    are cores for this process, no core is idle, whichever side is slower. On a single core, or where there are only a
    few items, there is no pool, and what was prepared is used while it is in the cache. At most two items a core are
    held, and as ``prepare``, which must be safe to call from several threads at once, gets its number alone, what is
    yielded does not depend on who was quick.
    """
    threads = processors() - 1
    if threads == 0 or count <= _FEW:
        yield from map(prepare, range(count))
        return
    pool = ThreadPoolExecutor(threads, "ahead")
    pending: deque[tuple[int, Future[T]]] = deque()
    try:
        for number in range(count):
            while len(pending) <= threads + 1 and number + len(pending) < count:
                pending.append((number + len(pending), pool.submit(prepare, number + len(pending))))
            while not pending[0][1].done() and _help(prepare, pending):
                pass
            yield pending.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)


def _help(prepare: Callable[[int], T], pending: deque[tuple[int, Future[T]]]) -> bool:
    """Prepare the first item that no thread has begun; return False if there is none."""
    for place, (number, future) in enumerate(pending):
        if future.cancel():
            done: Future[T] = Future()
            pending[place] = number, done
            done.set_result(prepare(number))
            return True
    return False
