"""List the values that many people hold, and count their holders among other people."""

from __future__ import annotations

import math

import numpy as np

from common.core.arrays import Words
from common.core.errors import PolicyRefused
from common.numerics.bits import pack
from common.numerics.randomness import RandomSource
from common.privacy.events import Event, SubsampledRelease
from common.privacy.rounding import down
from common.scenario.problems.blender import threshold
from common.vocabulary.mechanisms.laplace import Laplace
from common.vocabulary.operations.head import CountedHead, HeadList
from curator.operations.base import HANDLERS, OperationHandler, Workspace
from curator.sample.shard import BLOCK


@HANDLERS.register("head")
class HeadHandler(OperationHandler[HeadList, CountedHead]):
    """Two noisy histograms, of the people at even places (which values?) and at odd ones (how many hold them?).

    *The list* is a function of the histogram of the whole domain with two-sided geometric noise in every cell,
    epsilon/2 each: replacing a record changes two cells by 1, so that is pure epsilon-DP. Values with a noisy count of
    at least a public threshold are listed, the largest first. Of the cells that nobody holds only those that reach the
    threshold are drawn: how many these are is binomial, which they are is uniform, by how much is geometric (Cormode,
    Procopiuc, Srivastava and Tran 2012, "filtering"). *The counts* of the listed values have the same noise. A record
    is in one of the two parts, by its place: both together cost epsilon (parallel composition), and the counts are
    unbiased, since other people chose the list.
    """

    def event(self, operation: HeadList, workspace: Workspace) -> Event:
        """One pure release from the sample itself."""
        return SubsampledRelease(draws=1, sampling=1.0, epsilon=operation.epsilon, delta=0.0)

    def check(self, operation: HeadList, workspace: Workspace) -> None:
        """Refuse a sample in which nobody is at an odd place."""
        if len(workspace.sample) < 2:
            raise PolicyRefused(
                f"one half lists and the other counts: that takes two people, found {len(workspace.sample)}"
            )

    def run(self, operation: HeadList, workspace: Workspace, source: RandomSource) -> CountedHead:
        """Release values, noisy counts, and among how many people they were counted."""
        columns = slice(operation.first, operation.first + operation.bits)
        blocks = workspace.sample.blocks(BLOCK)
        values = np.concatenate([pack(records.features[:, columns]) for records in blocks])
        noise = Laplace(epsilon=down(operation.epsilon / 2.0))
        items = listed(values[::2], operation.bits, operation.most, noise, source.derive("list"))
        others = np.sort(values[1::2])
        counts = np.searchsorted(others, items, side="right") - np.searchsorted(others, items, side="left")
        noisy = counts + noise.noise(len(items), source.derive("counts")).astype(np.int64)
        return CountedHead(items=tuple(items.tolist()), counts=tuple(noisy.tolist()), people=len(others))


def listed(values: Words, bits: int, most: int, noise: Laplace, source: RandomSource) -> Words:
    """Return the values whose noisy counts reach the threshold, the largest counts first, at most so many.

    Of equal counts the smaller value comes first, whether anybody holds it or not: the order is a function of the noisy
    histogram, too.
    """
    held, counts = np.unique(values, return_counts=True)
    least = threshold(bits, noise)
    noisy = counts + noise.noise(len(held), source.derive("held")).astype(np.int64)
    reaching = noisy >= least
    empty = _spurious(held, bits, noise, least, source.derive("empty"))
    beyond = noise.successes(len(empty), source.derive("beyond")).astype(np.int64)
    items = np.concatenate([held[reaching], empty])
    order = np.lexsort((items, -np.concatenate([noisy[reaching], least + beyond])))
    return items[order[:most]]


def _spurious(held: Words, bits: int, noise: Laplace, least: int, source: RandomSource) -> Words:
    """Draw the empty cells that reach the threshold: their number is binomial, they are uniform."""
    cells = (1 << bits) - len(held)
    chance = noise.ratio**least / (1.0 + noise.ratio)
    found: list[int] = []
    wanted = _binomial(cells, chance, float(source.derive("number").uniforms(1)[0]))
    words = source.derive("which")
    while len(found) < wanted:
        item = int(words.words(1)[0]) >> (64 - bits)
        place = int(np.searchsorted(held, np.uint64(item)))
        if not (place < len(held) and int(held[place]) == item) and item not in found:
            found.append(item)
    return np.array(found, dtype=np.uint64)


def _binomial(trials: int, chance: float, uniform: float) -> int:
    """Return the number of successes whose distribution function first exceeds a uniform number."""
    count, mass = 0, math.exp(trials * math.log1p(-chance)) if trials else 1.0
    total = mass
    while total <= uniform and count < trials and mass > 0.0:
        mass *= (trials - count) / (count + 1) * chance / (1.0 - chance)
        count += 1
        total += mass
    return count
