"""What a learner gives of people; two domains of a few people each, for the tests of adaptation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from common.core.arrays import Indices
from common.learners.adaptation import Private
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from curator.learners.base import learn_from, parse_learner
from curator.learners.domains import Domains, DomainSide
from curator.sample.base import LocalSample, Sample
from curator.sample.reweighing import Reweighing, Sampler


def drawn(people: Records | Sample) -> Sampler:
    """Return draws of people who all weigh the same."""
    return Reweighing(len(people), None, 1.0).sampler(people)


def learned(
    learner: Any, people: Records | Sample | Sampler, seed: int = 1, previous: Hypothesis | None = None,
    public: Records | None = None,
) -> Any:  # fmt: skip
    """Return what a learner, or the one of these settings, gives of draws, or of draws of such people."""
    known = parse_learner(learner) if isinstance(learner, dict) else learner
    draws = people if isinstance(people, Sampler) else drawn(people)
    return learn_from(known, draws, RandomSource.seeded(seed), previous, public)


def side(size: int, shift: float, seed: int, dimension: int = 4, labels: bool = False) -> DomainSide:
    """People whose responses follow a line that moves with ``shift``, within ||x|| <= 1 and |y| <= 1."""
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(size, dimension)) * 0.4 + 0.2 * shift
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1))[:, None]
    line = np.resize([0.5, -0.3, 0.6, 0.1], dimension)
    responses = np.clip(features @ line + 0.2 * shift + 0.2 * draw.normal(size=size), -1.0, 1.0)
    return DomainSide(features, np.where(responses > 0, 1.0, -1.0) if labels else responses)


def domains(m: int = 30, n: int = 20, dimension: int = 4, private: Private = "target", labels: bool = False) -> Domains:
    """A source and a target that differ."""
    return Domains(side(m, 0.0, 1, dimension, labels), side(n, 1.0, 2, dimension, labels), private)


def replaced(given: Domains, features: list[float], response: float) -> Domains:
    """The neighbour in which the first private record is another one."""
    own = given.source if given.private == "source" else given.target
    rows, responses = own.features.copy(), own.responses.copy()
    rows[0], responses[0] = features, response
    changed = DomainSide(rows, responses)
    if given.private == "source":
        return Domains(changed, given.target, "source")
    return Domains(given.source, changed, "target")


class CountingSampler(Sampler):
    """Draws as a :class:`Sampler` does, whose other ways to draw all end in these.

    Attributes:
        drawn: Records that were drawn from mu, in all.
        passes: How often the sample itself was read.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(LocalSample.from_records(records), Reweighing(len(records), 0.5, 0.1).density())
        self.drawn = 0
        self.passes = 0

    def indices(self, count: int, source: RandomSource) -> Indices:
        self.drawn += count
        return super().indices(count, source)

    def draws(self, count: int, source: RandomSource) -> Records:
        self.drawn += count
        return super().draws(count, source)

    def everybody(self) -> Iterator[Records]:
        self.passes += 1
        return super().everybody()
