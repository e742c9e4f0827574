"""The base class of learners, and their registry."""

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
    """Sizes that determine memory and noise of a call: of both samples, and bytes of a feature as learners see it."""

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
    what the event of its settings declares, and refuses requests beyond that.

    With each example the contract suite learns a threshold on one of three features from 4000 people: from 0/1 features
    or with a public sample if the checks require it.
    """

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Refuse features that it cannot learn from, before any charge; this and the checks below raise BadScenario."""

    def check_public(self, public: Records | None) -> None:
        """Refuse a public sample that it cannot use; by default accept any, or none."""

    def check_people(self, people: int) -> None:
        """Refuse a sample of a size that it cannot use; by default accept any."""

    def check_here(self) -> None:
        """Raise if this process, the curator's, lacks something that it needs, such as a package; by default pass."""

    def check_run(self, rounds: int, operations: Collection[str]) -> None:
        """Refuse a run with this number of rounds or with these kinds of operations; by default accept any."""

    def noise_numbers(self, sizes: CallSizes) -> int:
        """Return the maximum number of Gaussian noise values that one step, or one release, of a call draws."""
        return sizes.dimension + 1

    def check_noise(self, sizes: CallSizes) -> None:
        """Refuse more Gaussian noise values than the budget pays for, before anything is charged."""
        check_numbers(self.event(1.0), self.noise_numbers(sizes))

    def room(self, sizes: CallSizes) -> int:
        """Return an upper bound on the memory of a call beside the sample, in bytes: the part that grows with its size.

        A sample with which this would not fit is refused before any work. The default 0 is for work in a few blocks.
        """
        return 0

    @abstractmethod
    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Learn within what the event of this call pays for; ``previous`` is what the last call *released*, if any."""

    def learned(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Learned:
        """Return the hypothesis of :meth:`learn`, with further released values, if any."""
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
    """Run a learner on a sampler within what its own event pays for, as an engine does, but without an engine."""
    access = Access(learner.event(tv_bound), sampler, source, learner.shown_features)
    learned = learner.learn(access, previous, public)
    access.close()
    return learned


LEARNERS: TypeRegistry[Learner] = TypeRegistry("learner", __name__, "name")


def parse_learner(settings: LearnerSettings | Any) -> Learner:
    """Return the learner with these settings, or with their JSON form; raises BadScenario if they are invalid."""
    try:
        return LEARNERS.parse(settings.wire() if isinstance(settings, LearnerSettings) else settings)
    except BadMessage as error:
        raise BadScenario(f"learner: {error.detail}") from None
