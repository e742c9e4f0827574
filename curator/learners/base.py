"""What every learner can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np

from common.core.errors import BadMessage, BadScenario
from common.core.registry import TypeRegistry
from common.learners.base import LearnerSettings
from common.local.hypotheses.hypothesis import Hypothesis
from common.local.records import Records
from common.numerics.randomness import RandomSource
from common.privacy.events import check_numbers
from curator.mechanisms.access import Access
from curator.sample.sampling import Sampler


class CallSizes(NamedTuple):
    """What the memory and the noise of a learner's call depend on, beside its settings; all public.

    ``people`` and ``public`` are the sizes of both samples, ``itemsize`` the bytes of a feature as learners see it.
    """

    people: int
    public: int
    dimension: int
    itemsize: int

    @property
    def width(self) -> int:
        """Bytes of a copied record."""
        return self.dimension * self.itemsize + 1


class Learner(LearnerSettings):
    """A learner: its public settings, and how it learns with them. Its class derives from that of the settings.

    A learner never holds the sample. It works through an :class:`~curator.mechanisms.access.Access`, which pays for
    what the event of its settings declares, and stops it where it asks for more.
    """

    @classmethod
    @abstractmethod
    def example(cls) -> tuple[Self, ...]:
        """Return settings, at least one, with which it learns a threshold of one of three features from 4000 people.

        The contract suite does: from 0/1 features where :meth:`check` refuses numbers, and with a public sample where
        :meth:`check_public` wants one.
        """

    def check(self, dtype: np.dtype[Any], dimension: int) -> None:
        """Refuse features that it cannot learn from, before anything is charged; as what follows, by BadScenario."""

    def check_public(self, public: Records | None) -> None:
        """Refuse a public sample that it cannot work with; by default take any, or none."""

    def check_people(self, people: int) -> None:
        """Refuse a sample of a size that it cannot work with; by default take any."""

    def noise_numbers(self, sizes: CallSizes) -> int:
        """Return how many numbers of Gaussian noise one step, or one release, of a call draws at most.

        By default one a feature, and one for the intercept.
        """
        return sizes.dimension + 1

    def check_noise(self, sizes: CallSizes) -> None:
        """Refuse more numbers of Gaussian noise than the budget pays for, before anything is charged.

        Raises:
            BadScenario: Saying how many (:func:`common.privacy.events.check_numbers`).
        """
        check_numbers(self.event(1.0), self.noise_numbers(sizes))

    def room(self, sizes: CallSizes) -> int:
        """Return how many bytes of memory a call takes beside the sample, as far as that grows with people or draws.

        An upper bound: a sample with which this would not fit is refused before any work. By default 0, for learners
        that hold a few blocks of records at a time.
        """
        return 0

    @abstractmethod
    def learn(self, access: Access, previous: Hypothesis | None, public: Records | None = None) -> Hypothesis:
        """Learn by what the event of this call pays for.

        Args:
            access: The curator's people, as far as the charged event pays for them.
            previous: The hypothesis that the previous call *released* (public), for a warm start.
        """


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
