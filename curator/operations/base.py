"""What an operation is: an event declared before it runs, and the work itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from common.core.registry import Registry
from common.privacy.events import Event
from common.vocabulary.hypotheses.base import Hypothesis
from common.vocabulary.operations.base import Operation, R
from common.vocabulary.records import Records
from common.vocabulary.weighing import Weighing
from curator.learners.base import Learner
from curator.metering.access import Access

Kind = TypeVar("Kind", bound=Operation[Any])


@dataclass(frozen=True)
class Standing:
    """Where the curator stands before an operation: all that is public, and nothing of a record.

    Attributes
    ----------
    people, dimension, dtype
        Of the sample: n, d, and the type of the features.
    tv_bound
        Bound on the total variation between the present mu and that of a neighbouring sample.
    learner
        The policy's; None where it has none.
    previous
        The hypothesis that was released last.
    public
        The public sample; None where the scenario has none.
    check_room
        Refuses a reweigh for whose counts there is no memory.
    """

    people: int
    dimension: int
    dtype: np.dtype[Any]
    tv_bound: float
    learner: Learner | None
    previous: Hypothesis | None
    public: Records | None
    check_room: Callable[[Weighing], None]


class OperationHandler(ABC, Generic[Kind, R]):
    """How the curator carries out one kind of operation.

    A handler holds no sample: it works through an :class:`~curator.metering.access.Access`, which pays for what
    :meth:`event` declared. Weights are changed by the engine, for operations with a ``reweighs_by``.
    """

    @abstractmethod
    def event(self, operation: Kind, standing: Standing) -> Event:
        """Declare what the operation costs, from public numbers alone."""

    def check(self, operation: Kind, standing: Standing) -> None:
        """Refuse what could not be carried out here, before anything is charged or changed.

        Raises
        ------
        PolicyRefused
            Saying what is missing.
        """

    @abstractmethod
    def run(self, operation: Kind, access: Access, standing: Standing) -> R:
        """Carry it out by what was charged, and return what is released."""

    def learned(self, result: R) -> Hypothesis | None:
        """Return the hypothesis that later rounds begin with, if this result has one."""
        return None


HANDLERS: Registry[type[OperationHandler[Any, Any]]] = Registry("operation", __name__)
