"""What every learner can do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from common.errors import BadScenario
from common.hypotheses.base import Hypothesis
from common.privacy.events import Event
from common.randomness import RandomSource
from common.registry import Registry
from common.values import Value
from curator.sampling import Sampler


class Learner(Value):
    """A learner with its public settings, as a frozen value.

    A learner sees records only through draws from mu (a :class:`~curator.sampling.Sampler`), so that the subsampling
    lemmas apply to everything it does.
    """

    name: str

    @abstractmethod
    def event(self, sampling: float) -> Event:
        """Declare what one call costs, before it runs.

        Parameters
        ----------
        sampling
            Upper bound s on the total variation between mu and mu' of neighbouring samples (1/(kappa n) at most).
        """

    @abstractmethod
    def learn(self, sampler: Sampler, source: RandomSource, previous: Hypothesis | None) -> Hypothesis:
        """Learn from draws of mu.

        Parameters
        ----------
        sampler
            Draws records from mu.
        source
            All randomness of this call, draws included.
        previous
            The hypothesis that the previous call *released* (public), for a warm start; None in the first round.
        """


LEARNERS: Registry[type[Learner]] = Registry("learner", "curator.learners")


def parse_learner(settings: Any) -> Learner:
    """Validate a learner from its settings.

    Raises
    ------
    BadScenario
        If the name is unknown or a setting is wrong.
    """
    name = settings.get("name") if isinstance(settings, dict) else None
    if name not in LEARNERS.names():
        raise BadScenario(f"no learner is called {name!r}; known: {', '.join(LEARNERS.names())}")
    return LEARNERS[str(name)].parse(settings)
