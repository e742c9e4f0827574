"""What every learner can do."""

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from common.core.errors import BadMessage, BadScenario
from common.core.registry import RegisteredValue, TypeRegistry
from common.learners.base import LearnerSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.operations.operation import Learned
from common.privacy.events import check_numbers
from curator.mechanisms.access import Access
from curator.sample.reweighing import Sampler


class CallSizes(NamedTuple):
    """What memory and noise of a call depend on: sizes of both samples, and bytes of a feature as learners see it."""

    people: int
    public: int
    dimension: int
    itemsize: int

    @property
    def width(self) -> int:
        """Bytes of a copied record."""
        return self.dimension * self.itemsize + 1


class Learner(LearnerSettings, RegisteredValue):
    """A learner: its public settings, and how it learns with them. Its class derives from that of the settings.

    A learner never holds the sample. It works through an :class:`~curator.mechanisms.access.Access`, which pays for
    what the event of its settings declares, and stops it where it asks for more.

    With each example the contract suite learns a threshold of one of three features from 4000 people: from 0/1 features
    or with a public sample where the checks want that.
    """

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Refuse features that it cannot learn from, before anything is charged; as what follows, by BadScenario."""

    def check_public(self, public: Records | None) -> None:
        """Refuse a public sample that it cannot work with; by default take any, or none."""

    def check_people(self, people: int) -> None:
        """Refuse a sample of a size that it cannot work with; by default take any."""

    def check_here(self) -> None:
        """Refuse what this process, which is the curator's, lacks; by default it lacks nothing."""

    def check_run(self, rounds: int, operations: Collection[str]) -> None:
        """Refuse a run of so many rounds, or one that asks for these kinds of operations; by default take any."""

    def noise_numbers(self, sizes: CallSizes) -> int:
        """Return how many numbers of Gaussian noise one step, or one release, of a call draws at most."""
        return sizes.dimension + 1

    def check_noise(self, sizes: CallSizes) -> None:
        """Refuse more numbers of Gaussian noise than the budget pays for, before anything is charged."""
        check_numbers(self.event(1.0), self.noise_numbers(sizes))

    def room(self, sizes: CallSizes) -> int:
        """Return an upper bound on the bytes that a call takes beside the sample, as far as people or draws say.

        A sample with which this would not fit is refused before any work. By default 0, for a few blocks at a time.
        """
        return 0

    @abstractmethod
    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Learn by what the event of this call pays for; ``previous`` is what the call before *released*, if any."""

    def learned(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Learned:
        """Return what :meth:`learn` does, with what else is released of it, if anything."""
        return Learned(hypothesis=self.learn(access, previous, public))


def learn_from(
    learner: Learner,
    sampler: Sampler,
    source: RandomSource,
    previous: Hypothesis | None = None,
    public: Records | None = None,
    *,
    tv_bound: float = 1e-3,
) -> Hypothesis:
    """Have a learner learn from a sampler by what its own event pays for: as an engine does, without its sample."""
    access = Access(learner.event(tv_bound), sampler, source, learner.shown_features)
    learned = learner.learn(access, previous, public)
    access.close()
    return learned


LEARNERS: TypeRegistry[Learner] = TypeRegistry("learner", __name__, "name")


def parse_learner(settings: LearnerSettings | Any) -> Learner:
    """Return the learner of these settings, or of their JSON form; raises BadScenario if something is wrong."""
    try:
        return LEARNERS.parse(settings.wire() if isinstance(settings, LearnerSettings) else settings)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
