"""What an operation is: an event declared before it runs, and the work itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from common.core.registry import Registry
from common.numerics.randomness import RandomSource
from common.privacy.events import Event
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.operations.base import Operation, R
from common.vocabulary.records import Records
from curator.learners.base import Learner
from curator.sample.base import Sample
from curator.weights.reweighing import Reweighing

Kind = TypeVar("Kind", bound=Operation[Any])


@dataclass
class Workspace:
    """What the curator works with: its sample, the law of its weights, its learner, and what it released last.

    ``learner`` is None where the policy has none, ``public`` where the scenario has no public sample.
    """

    sample: Sample
    reweighing: Reweighing
    learner: Learner | None
    previous: Hypothesis | None = None
    public: Records | None = None


class OperationHandler(ABC, Generic[Kind, R]):
    """How the curator carries out one kind of operation."""

    @abstractmethod
    def event(self, operation: Kind, workspace: Workspace) -> Event:
        """Declare what the operation costs, from public numbers alone."""

    def check(self, operation: Kind, workspace: Workspace) -> None:
        """Refuse what could not be carried out here, before anything is charged or changed.

        Raises
        ------
        PolicyRefused
            Saying what is missing.
        """

    @abstractmethod
    def run(self, operation: Kind, workspace: Workspace, source: RandomSource) -> R:
        """Carry it out and return what is released."""

    def replay(self, operation: Kind, result: R, workspace: Workspace) -> None:
        """Bring the workspace to where it was after this operation had run; releases nothing."""


HANDLERS: Registry[type[OperationHandler[Any, Any]]] = Registry("operation", __name__)
